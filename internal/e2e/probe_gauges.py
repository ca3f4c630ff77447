"""Watches the engine's gauges while prompts are computed, aborted, queued and
preempted, and records them as time series.

    python probe_gauges.py OUT http://127.0.0.1:8101

The instance has to be slow and small, so that there is something to see:
    PREFIXWISE_E2E_MODEL=slow PREFIXWISE_E2E_ARGS="--max-model-len 4096 \\
      --num-gpu-blocks-override 200 --max-num-batched-tokens 512 --max-num-seqs 4"
that is 6,400 tokens of cache, prompts computed 512 tokens at a time, and four
requests at once. The engine must be idle otherwise.

A series keeps the rows in which a counter or gauge of requests or prompts moved;
what moves at every token (generated, kv) is kept twice a second. "events" are what the
clients did and saw, on the same clock.
"""

import http.client
import json
import sys
import threading
import time
from urllib.parse import urlsplit

INTERVAL = 0.03
COLUMNS = {
    "running": "vllm:num_requests_running", "waiting": "vllm:num_requests_waiting",
    "queries": "vllm:prefix_cache_queries_total", "hits": "vllm:prefix_cache_hits_total",
    "prompt": "vllm:prompt_tokens_total", "prompt_cached": "vllm:prompt_tokens_cached_total",
    "generated": "vllm:generation_tokens_total", "first_tokens": "vllm:time_to_first_token_seconds_count",
    "preemptions": "vllm:num_preemptions_total", "kv": "vllm:kv_cache_usage_perc"}


class Probe:
    def __init__(self, url):
        at = urlsplit(url)
        self.host, self.port = at.hostname, at.port
        self.model = json.loads(self.get("/v1/models"))["data"][0]["id"]
        self.mark = int(time.time())

    def get(self, path):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        connection.request("GET", path)
        body = connection.getresponse().read().decode()
        connection.close()
        return body

    def sample(self):
        found = dict.fromkeys(COLUMNS, 0.0)
        wanted = {v: k for k, v in COLUMNS.items()}
        for line in self.get("/metrics").splitlines():
            name = line.partition("{")[0]
            if name in wanted:
                found[wanted[name]] += float(line.rpartition(" ")[2])
        found["kv"] = round(found["kv"], 3)
        return found

    def prompt(self, name, words):
        """A prompt that the cache does not know, about 2 tokens a word."""
        return f"{self.mark} {name} " + " ".join(f"{(i * 7919) % 9973}" for i in range(words))

    def run(self, name, script, settle=1.0):
        """Samples while script runs, and until the engine has been idle for a while."""
        start = time.monotonic()
        base = self.sample()
        rows, events, stop = [], [], threading.Event()
        since = lambda: round(time.monotonic() - start, 3)
        took = []

        def watch():
            idle = None
            while True:
                before = time.monotonic()
                at = since()
                now = self.sample()
                took.append(time.monotonic() - before)
                row = [at] + [round(now[c] - (base[c] if c not in ("running", "waiting", "kv") else 0), 3) for c in COLUMNS]
                if not rows or row[1:] != rows[-1][1:]:
                    rows.append(row)
                if stop.is_set() and now["running"] == 0 and now["waiting"] == 0:
                    idle = idle or time.monotonic()
                    if time.monotonic() - idle > settle:
                        rows.append(row)
                        return
                else:
                    idle = None
                time.sleep(max(0, INTERVAL - (time.monotonic() - before)))

        watcher = threading.Thread(target=watch)
        watcher.start()
        time.sleep(0.2)
        say = lambda what: events.append([since(), what])
        script(say)
        stop.set()
        watcher.join()
        last = dict(zip(["t", *COLUMNS], rows[-1]))
        print(f"{name}: {rows[-1][0]:.1f} s, queries-prompt at the end {last['queries'] - last['prompt']:.0f}, hits-prompt_cached {last['hits'] - last['prompt_cached']:.0f}")
        return {"sample_seconds": round(sum(took) / len(took), 4), "columns": ["t", *COLUMNS], "rows": thin(rows), "events": sorted(events)}

    def send(self, say, name, text, max_tokens=1, abort_after=None):
        """One stream in a thread of its own; abort_after seconds it is closed."""
        def work():
            connection = http.client.HTTPConnection(self.host, self.port, timeout=300)
            messages = text if isinstance(text, list) else [{"role": "user", "content": text}]
            body = {"model": self.model, "messages": messages, "max_tokens": max_tokens, "ignore_eos": True,
                    "temperature": 0, "stream": True, "stream_options": {"include_usage": True}}
            say(f"{name} sent")
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            sock = connection.sock
            if abort_after is not None:
                time.sleep(abort_after)
                sock.close()
                connection.close()
                # The response object, if any, shares the socket: nothing reads it.
                say(f"{name} closed by client")
                return
            answer = connection.getresponse()
            say(f"{name} headers")
            first = False
            for line in answer:
                if not line.startswith(b"data: {"):
                    continue
                chunk = json.loads(line[6:])
                if not first and chunk["choices"]:
                    first = True
                    say(f"{name} first chunk")
                if chunk.get("usage"):
                    say(f"{name} done, prompt {chunk['usage']['prompt_tokens']}, cached {chunk['usage']['prompt_tokens_details']['cached_tokens']}, generated {chunk['usage']['completion_tokens']}")
            connection.close()
        thread = threading.Thread(target=work)
        thread.start()
        return thread


def rows_on_lines(value, depth=0):
    """JSON with a list of plain values on one line: readable, small differences."""
    pad = " " * (depth + 1)
    if isinstance(value, dict) and value:
        inner = ",\n".join(f"{pad}{json.dumps(k)}: {rows_on_lines(v, depth + 1)}" for k, v in value.items())
        return "{\n" + inner + "\n" + " " * depth + "}"
    if isinstance(value, list) and any(isinstance(v, (list, dict)) for v in value):
        inner = ",\n".join(pad + rows_on_lines(v, depth + 1) for v in value)
        return "[\n" + inner + "\n" + " " * depth + "]"
    return json.dumps(value)


def thin(rows):
    """Drops rows that say nothing new, as the head of this file tells."""
    steady = [1 + i for i, c in enumerate(COLUMNS) if c not in ("generated", "kv")]
    kept = rows[:1]
    for row in rows[1:-1]:
        if any(row[i] != kept[-1][i] for i in steady) or (row[1:] != kept[-1][1:] and row[0] - kept[-1][0] > 0.5):
            kept.append(row)
    return kept + rows[-1:]


def together(*threads):
    for t in threads:
        t.join()


def main():
    path, url = sys.argv[1:]
    p = Probe(url)
    together(p.send(lambda _: None, "warm", p.prompt("warm", 100)))
    long = p.prompt("one", 1200)
    cases = {}

    def case(name, what, script, **more):
        cases[name] = {"what": what} | p.run(name, script, **more)

    case("prefill", "one prompt, computed alone in chunks",
         lambda say: together(p.send(say, "a", long, 8)))
    case("cached", "the same prompt again",
         lambda say: together(p.send(say, "a", long, 8)))
    case("turn", "the same prompt, an answer and a further turn",
         lambda say: together(p.send(say, "a", [{"role": "user", "content": long}, {"role": "assistant", "content": "yes"}, {"role": "user", "content": p.prompt("two", 300)}], 8)))

    def two(say):
        a = p.send(say, "a", p.prompt("twin", 1200), 8)
        time.sleep(0.4)
        b = p.send(say, "b", p.prompt("twin", 1200) + " and more", 8)
        together(a, b)
    case("twins", "a second prompt with the same beginning, while the first is computed", two)

    def queue(say):
        threads = []
        for i in range(8):
            threads.append(p.send(say, f"r{i}", p.prompt(f"queue{i}", 300), 24))
            time.sleep(0.05)
        together(*threads)
    case("queue", "eight prompts at once, four may run", queue)

    def abort(say):
        together(p.send(say, "a", p.prompt("gone", 1300), 8, abort_after=0.8))
    case("abort in prefill", "the client leaves while its prompt is computed", abort, settle=4.0)

    def abort_decode(say):
        together(p.send(say, "a", p.prompt("gone2", 200), 2000, abort_after=2.5))
    case("abort in decode", "the client leaves while tokens are generated", abort_decode, settle=2.0)

    def abort_waiting(say):
        threads = [p.send(say, f"r{i}", p.prompt(f"hold{i}", 300), 40) for i in range(4)]
        time.sleep(0.5)
        threads.append(p.send(say, "w", p.prompt("never", 600), 8, abort_after=1.0))
        together(*threads)
    case("abort while waiting", "the client leaves before its request was admitted", abort_waiting, settle=2.0)

    def preempt(say):
        threads = [p.send(say, f"r{i}", p.prompt(f"big{i}", 550), 700) for i in range(4)]
        together(*threads)
    case("preemption", "four requests that outgrow the cache together", preempt)

    def after(say):
        together(p.send(say, "a", p.prompt("after", 300), 8))
    case("after all", "one more prompt, to see whether the differences stay", after)

    out = {"engine": json.loads(p.get("/version")), "date": time.strftime("%Y-%m-%d"), "interval_seconds": INTERVAL,
           "cases": cases, "at the end": p.sample()}
    with open(path, "w") as file:
        file.write(rows_on_lines(out) + "\n")


if __name__ == "__main__":
    main()
