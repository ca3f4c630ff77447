"""Measures how long one instance takes to compute prompts and to generate, and
fits the cost model of the simulator to it.

    python probe_speed.py OUT http://127.0.0.1:8101 PID   (needs numpy: use the engine's environment)
    python probe_speed.py OUT                             fits what OUT holds, again

With what OUT holds from an earlier run the lesser of two times is kept.

The instance: PREFIXWISE_E2E_MODEL=slow fleet start 1, with nothing to do, and
PID its process. Every measurement is a pair: the processor time that its engine
and worker processes used (one thread computes, so this is the time an
undisturbed machine would take) and the time by the clock at the client. Of some
repetitions the one with the least processor time counts, since other work on
the machine only ever adds. The fits are to processor time. A step of decoding
is too short for that: it is the lower quartile of the times between tokens.
"""

import glob
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

import numpy as np

from probe_gauges import rows_on_lines

REPEAT = 3
LENGTHS = [32, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096]
CACHED = [(1024, 512), (2048, 1024), (2048, 1920), (3072, 1024), (3072, 2048), (4096, 1024), (4096, 2048), (4096, 3072), (4096, 3840), (4096, 4064)]
counter = int(time.time()) % 10**6 * 1000


def fresh():
    """Token ids at the head of a prompt that no prompt had before."""
    global counter
    counter += 1
    return [300 + int(d) for d in str(counter)]


def prompt(length, head):
    return (head + [400 + (i * 7919) % 5000 for i in range(length)])[:length]


class Processor:
    """The processor time of the processes below one, without the one itself:
    the engine's and its worker's, not the HTTP server's."""

    def __init__(self, pid):
        table = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
        parent = dict(map(int, line.split()) for line in table.splitlines())

        def below(p):
            while p in parent:
                p = parent[p]
                if p == pid:
                    return True
            return False
        self.pids = [p for p in parent if below(p)]

    def seconds(self):
        total = 0
        for pid in self.pids:
            for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
                with open(path) as file:
                    total += int(file.read().split()[0])
        return total / 1e9

    def least(self, prepare, one):
        """[processor seconds, clock seconds, result] of one(prepare()), the least of some."""
        best = None
        for _ in range(REPEAT):
            ready = prepare()
            time.sleep(0.05)
            used, start = self.seconds(), time.monotonic()
            result = one(ready)
            took = time.monotonic() - start
            # The engine is done a moment after the client.
            time.sleep(0.05)
            used = self.seconds() - used
            if best is None or used < best[0]:
                best = [round(used, 4), round(took, 4), result]
        return best


class Instance:
    def __init__(self, url):
        at = urlsplit(url)
        self.at = (at.hostname, at.port)
        connection = http.client.HTTPConnection(*self.at)
        connection.request("GET", "/v1/models")
        self.model = json.loads(connection.getresponse().read())["data"][0]["id"]

    def stream(self, ids, max_tokens):
        """(seconds to the first token, the times between tokens, cached tokens)"""
        body = json.dumps({"model": self.model, "prompt": ids, "max_tokens": max_tokens, "ignore_eos": True, "temperature": 0,
                           "stream": True, "stream_options": {"include_usage": True}})
        connection = http.client.HTTPConnection(*self.at, timeout=600)
        start = time.monotonic()
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        times, cached = [], None
        for line in connection.getresponse():
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            if chunk["choices"]:
                times.append(time.monotonic())
            if chunk.get("usage"):
                cached = chunk["usage"]["prompt_tokens_details"]["cached_tokens"]
        connection.close()
        return times[0] - start, list(np.diff(times)), cached


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


def measure(url, pid):
    e, cpu = Instance(url), Processor(pid)
    e.stream(prompt(2048, fresh()), 4)
    out = {"prefill": [], "cached": [], "decode": [], "batch prefill": []}

    def keep(name, *row):
        out[name].append(list(row))
        print(name, *row, flush=True)

    for length in LENGTHS:
        used, took, _ = cpu.least(lambda: prompt(length, fresh()), lambda p: e.stream(p, 1))
        keep("prefill", length, used, took)
    for length, shared in CACHED:
        def prepare():
            whole = prompt(length, fresh())
            e.stream(whole[:shared], 1)
            # Other ids after the shared part: the longer prompt is new to the cache.
            return (whole[:shared] + fresh() + whole[shared:])[:length]
        used, took, result = cpu.least(prepare, lambda p: e.stream(p, 1))
        keep("cached", length, result[2], used, took)
    for batch in [1, 2, 4, 8]:
        for length in [64, 1024, 3072]:
            prompts = [prompt(length, fresh()) for _ in range(batch)]
            for p in prompts:
                e.stream(p, 1)
            gaps = []
            for _ in range(REPEAT):
                # The first and last tokens of a batch do not run beside all others.
                gaps += [g for r in together(batch, lambda i: e.stream(prompts[i], 40)) for g in r[1][batch:-batch]]
            keep("decode", batch, length, round(float(np.quantile(gaps, 0.25)), 5))
    for batch, length in [(2, 1024), (4, 1024), (8, 512)]:
        used, took, results = cpu.least(lambda: [prompt(length, fresh()) for _ in range(batch)],
                                        lambda ps: together(batch, lambda i: e.stream(ps[i], 1)))
        keep("batch prefill", batch, length, used, took, sorted(round(r[0], 4) for r in results))
    return out


# The numbers at the head of a row that say what was measured.
KEYS = {"prefill": 1, "cached": 2, "decode": 2, "batch prefill": 2}


def merge(old, new):
    """For each measurement the one that took less."""
    out = {}
    for name, k in KEYS.items():
        best = {}
        for row in old.get(name, []) + new.get(name, []):
            if tuple(row[:k]) not in best or row[k] < best[tuple(row[:k])][k]:
                best[tuple(row[:k])] = row
        out[name] = [best[key] for key in sorted(best)]
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
    rows = [(n, 0, s) for n, s, _ in out["prefill"]] + [(n - c, c, s) for n, c, s, _ in out["cached"]]
    fits = {}
    x, mean, worst = least_squares([[1, n] for n, c, s in rows], [s for *_, s in rows])
    fits["prefill linear"] = {"seconds": x[0], "seconds a token": x[1], "mean error": mean, "largest error": worst}
    x, mean, worst = least_squares([[1, n, n * (c + n / 2)] for n, c, s in rows], [s for *_, s in rows])
    fits["prefill quadratic"] = {"seconds": x[0], "seconds a token": x[1], "seconds a token and token of context": x[2], "mean error": mean, "largest error": worst}
    rows = out["decode"]
    x, mean, worst = least_squares([[1, b] for b, n, s in rows], [s for *_, s in rows])
    fits["decode by batch"] = {"seconds a step": x[0], "a sequence": x[1], "mean error": mean, "largest error": worst}
    x, mean, worst = least_squares([[1, b, b * (n + 20)] for b, n, s in rows], [s for *_, s in rows])
    fits["decode by batch and context"] = {"seconds a step": x[0], "a sequence": x[1], "a token of context": x[2], "mean error": mean, "largest error": worst}
    return fits


def main():
    path, *where = sys.argv[1:]
    out = {"measured": {}}
    if os.path.exists(path):
        with open(path) as file:
            out = json.load(file)
    if where:
        url, pid = where
        out = {"date": time.strftime("%Y-%m-%d"), "measured": merge(out["measured"], measure(url, int(pid)))}
    out["fits"] = fit(out["measured"])
    print(json.dumps(out["fits"], indent=1))
    with open(path, "w") as file:
        file.write(rows_on_lines(out) + "\n")


if __name__ == "__main__":
    main()
