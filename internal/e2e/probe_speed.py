"""Measures how long one instance takes to compute prompts and to generate, and
fits the cost model of the simulator to it.

    python probe_speed.py OUT http://127.0.0.1:8101       (needs numpy: use the engine's environment)
    python probe_speed.py OUT                             fits what OUT holds, again

The instance: PREFIXWISE_E2E_MODEL=slow fleet start 1, nothing else running.
Every time is the least of some repetitions, since other work on the machine
only ever adds: at least three, and more until two of the least agree. Times are the client's, to the first chunk with content.
"""

import http.client
import json
import sys
import threading
import time
from urllib.parse import urlsplit

import numpy as np

from probe_gauges import rows_on_lines

AGREE = 0.03
MOST = 9
LENGTHS = [32, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096]
counter = int(time.time()) % 10**6 * 1000


def fresh():
    """Token ids at the head of a prompt that no prompt had before."""
    global counter
    counter += 1
    return [300 + int(d) for d in str(counter)]


def prompt(length, head):
    return (head + [400 + (i * 7919) % 5000 for i in range(length)])[:length]


def least(one):
    """The least of one() by its first member, once the two least agree."""
    seen = []
    while len(seen) < MOST:
        seen.append(one())
        seen.sort(key=lambda r: r[0])
        if len(seen) >= 3 and seen[1][0] < seen[0][0] * (1 + AGREE):
            break
    return seen[0]


class Instance:
    def __init__(self, url):
        at = urlsplit(url)
        self.at = (at.hostname, at.port)
        connection = http.client.HTTPConnection(*self.at)
        connection.request("GET", "/v1/models")
        self.model = json.loads(connection.getresponse().read())["data"][0]["id"]

    def stream(self, ids, max_tokens):
        """(seconds to the first token, seconds from it to the last, cached tokens)"""
        body = json.dumps({"model": self.model, "prompt": ids, "max_tokens": max_tokens, "ignore_eos": True, "temperature": 0,
                           "stream": True, "stream_options": {"include_usage": True}})
        connection = http.client.HTTPConnection(*self.at, timeout=600)
        start = time.monotonic()
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        first = last = cached = None
        for line in connection.getresponse():
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            if chunk["choices"]:
                last = time.monotonic()
                first = first or last
            if chunk.get("usage"):
                cached = chunk["usage"]["prompt_tokens_details"]["cached_tokens"]
        connection.close()
        return first - start, last - first, cached


def together(n, one):
    """one(0) to one(n-1) at the same time."""
    results = [None] * n

    def work(i):
        results[i] = one(i)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


def measure(url):
    e = Instance(url)
    e.stream(prompt(2048, fresh()), 4)
    out = {"prefill": [], "cached": [], "decode": [], "batch prefill": [], "mixed": []}
    for length in LENGTHS:
        out["prefill"].append([length, round(least(lambda: e.stream(prompt(length, fresh()), 1))[0], 4)])
        print("prefill", out["prefill"][-1], flush=True)
    for length, shared in [(1024, 512), (2048, 1024), (2048, 1920), (3072, 1024), (3072, 2048), (4096, 1024), (4096, 2048), (4096, 3072), (4096, 3840), (4096, 4064)]:
        def one():
            whole = prompt(length, fresh())
            e.stream(whole[:shared], 1)
            # Other ids after the shared part: the longer prompt is new to the cache.
            return e.stream(whole[:shared] + fresh() + whole[shared + 12:], 1)
        first, _, cached = least(one)
        out["cached"].append([length, cached, round(first, 4)])
        print("cached", out["cached"][-1], flush=True)
    for batch in [1, 2, 4, 8]:
        for length in [64, 1024, 3072]:
            steps = 24
            prompts = [prompt(length, fresh()) for _ in range(batch)]
            for p in prompts:
                e.stream(p, 1)

            def one():
                results = together(batch, lambda i: e.stream(prompts[i], steps))
                return (float(np.median([r[1] for r in results])) / (steps - 1),)
            out["decode"].append([batch, length, round(least(one)[0], 5)])
            print("decode", out["decode"][-1], flush=True)
    for batch, length in [(2, 1024), (4, 1024), (8, 512)]:
        def one():
            heads = [fresh() for _ in range(batch)]
            start = time.monotonic()
            results = together(batch, lambda i: e.stream(prompt(length, heads[i]), 1))
            return time.monotonic() - start, sorted(round(r[0], 4) for r in results)
        took, firsts = least(one)
        out["batch prefill"].append([batch, length, round(took, 4), firsts])
        print("batch prefill", out["batch prefill"][-1], flush=True)
    # A stream that generates while a long prompt is computed: how much slower?
    holder = {}
    t = threading.Thread(target=lambda: holder.update(r=e.stream(prompt(256, fresh()), 60)))
    t.start()
    time.sleep(0.5)
    first = e.stream(prompt(2048, fresh()), 1)[0]
    t.join()
    out["mixed"] = {"60 tokens beside a prompt of 2048: seconds": round(holder["r"][1], 3), "the prompt's first token": round(first, 3)}
    return out


def least_squares(columns, y):
    """Coefficients by relative error, the mean and the largest relative error."""
    a, y = np.array(columns, float), np.array(y, float)
    w = 1 / y
    x, *_ = np.linalg.lstsq(a * w[:, None], y * w, rcond=None)
    off = np.abs(a @ x / y - 1)
    return [float(f"{v:.4g}") for v in x], round(float(off.mean()), 4), round(float(off.max()), 4)


def fit(out):
    """Prefill of n tokens after c cached: a + b n + q n (c + n/2). Decode step of
    a batch with k tokens of context in all: a + b batch + q k."""
    rows = [(n, 0, s) for n, s in out["prefill"]] + [(n - c, c, s) for n, c, s in out["cached"]]
    fits = {}
    x, mean, worst = least_squares([[1, n] for n, c, s in rows], [s for *_, s in rows])
    fits["prefill linear"] = {"seconds": x[0], "seconds a token": x[1], "mean error": mean, "largest error": worst}
    x, mean, worst = least_squares([[1, n, n * (c + n / 2)] for n, c, s in rows], [s for *_, s in rows])
    fits["prefill quadratic"] = {"seconds": x[0], "seconds a token": x[1], "seconds a token and token of context": x[2], "mean error": mean, "largest error": worst}
    rows = out["decode"]
    x, mean, worst = least_squares([[1, b] for b, n, s in rows], [s for *_, s in rows])
    fits["decode by batch"] = {"seconds a step": x[0], "a sequence": x[1], "mean error": mean, "largest error": worst}
    x, mean, worst = least_squares([[1, b, b * (n + 12)] for b, n, s in rows], [s for *_, s in rows])
    fits["decode by batch and context"] = {"seconds a step": x[0], "a sequence": x[1], "a token of context": x[2], "mean error": mean, "largest error": worst}
    return fits


def main():
    path, *url = sys.argv[1:]
    if url:
        out = {"date": time.strftime("%Y-%m-%d"), "measured": measure(url[0])}
    else:
        with open(path) as file:
            out = json.load(file)
    out["fits"] = fit(out["measured"])
    print(json.dumps(out["fits"], indent=1))
    with open(path, "w") as file:
        file.write(rows_on_lines(out) + "\n")


if __name__ == "__main__":
    main()
