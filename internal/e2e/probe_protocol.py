"""Asks running engines how they really behave, and records it word for word.

    python probe_protocol.py OUT NAME=URL ...

Each name asks for a set of questions, in the order given, and fills its part of
OUT, keeping the others (drain and abort are lists, since no two endings are
alike: each run adds to them):
    main=URL        an instance as `fleet start` makes it
    key=URL         --api-key secret --enable-scale-out, and
                    VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in the environment
    plain=URL       without --enable-prompt-tokens-details and the tool parser
    think=URL       --reasoning-parser deepseek_r1
    busy=URL        --max-num-seqs 1 --max-num-queued-reqs 1
    drain=URL#PID   ends the instance with SIGTERM while it works
    abort=URL#PID   the same, for one without --shutdown-timeout
    dead=URL#PID    kills the engine process below PID while it works
The standard library is enough. Lines that change at every run (ids, times) are
kept: the file is evidence, not a golden file.
"""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

KEEP_HEADERS = {"content-type", "retry-after", "x-request-id", "connection", "content-length",
                "transfer-encoding", "server", "www-authenticate", "allow", "endpoint-load-metrics"}
LONG = " ".join(f"line {i}: the quick brown fox jumps over the lazy dog." for i in range(40))


def ask(url, method, path, body=None, headers=None, timeout=120):
    """One request; the answer as it came."""
    at = urlsplit(url)
    connection = http.client.HTTPConnection(at.hostname, at.port, timeout=timeout)
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json"} if data is not None else {}
    try:
        connection.request(method, path, data, sent | (headers or {}))
        answer = connection.getresponse()
        raw = answer.read()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        connection.close()
    return {"status": answer.status,
            "headers": {k.lower(): v for k, v in answer.getheaders() if k.lower() in KEEP_HEADERS},
            "body": raw.decode()}


def chat(url, messages, path="/v1/chat/completions", headers=None, **more):
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    body = {"model": "tiny", "messages": messages, "max_tokens": 4, "temperature": 0} | more
    return ask(url, "POST", path, {k: v for k, v in body.items() if v is not ...}, headers)


def cached(url, messages, **more):
    """cached_tokens of a request: "absent" is not 0."""
    usage = json.loads(chat(url, messages, **more)["body"])["usage"]
    details = usage.get("prompt_tokens_details")
    return {"prompt_tokens": usage["prompt_tokens"],
            "cached_tokens": "absent" if details is None else details.get("cached_tokens", "absent")}


def ids(url, messages, **more):
    """The token ids of a prompt, or the error."""
    answer = chat(url, messages, return_token_ids=True, max_tokens=1, **more)
    if answer["status"] != 200:
        return answer["body"]
    return json.loads(answer["body"])["prompt_token_ids"]


TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "add", "description": "Adds", "parameters": {
        "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}}},
]


def agent(**change):
    """A small agent history; change replaces parts of it."""
    part = {"system": "You are a weather agent.", "user": "Weather in Paris?", "content": None,
            "arguments": '{"city":"Paris","days":2}', "reasoning": {}, "result": '{"t":21}', "call": {}} | change
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": part["arguments"]}}
    return [{"role": "system", "content": part["system"]}, {"role": "user", "content": part["user"]},
            {"role": "assistant", "content": part["content"], "tool_calls": [call], **part["reasoning"]},
            {"role": "tool", "tool_call_id": "call_1", "content": part["result"], **part["call"]}]


def main_questions(url):
    out = {}
    out["health"] = ask(url, "GET", "/health")
    out["ping"] = ask(url, "GET", "/ping")
    out["version"] = ask(url, "GET", "/version")
    out["load"] = ask(url, "GET", "/load")
    out["models"] = ask(url, "GET", "/v1/models")
    for path in ["/is_sleeping", "/server_info", "/reset_prefix_cache", "/v1/load_lora_adapter", "/v1/embeddings", "/kv_event_sources"]:
        out["route " + path] = ask(url, "GET", path)

    # Success and streams.
    out["chat"] = chat(url, "hello")
    out["chat header request id"] = chat(url, "hello", headers={"X-Request-Id": "abc"})
    out["chat load header"] = chat(url, "hello", headers={"endpoint-load-metrics-format": "TEXT"})
    out["chat n=2"] = chat(url, "hello", n=2, temperature=1, seed=1)
    out["chat model absent"] = chat(url, "hello", model=...)
    out["chat model empty"] = chat(url, "hello", model="")
    out["chat data parallel rank header"] = chat(url, "hello", headers={"X-data-parallel-rank": "3"})
    out["chat lora"] = chat(url, "hello", model="lora-a")
    out["completion"] = ask(url, "POST", "/v1/completions", {"model": "tiny", "prompt": "hello there", "max_tokens": 4, "temperature": 0})
    out["completion token ids"] = ask(url, "POST", "/v1/completions", {"model": "tiny", "prompt": [5, 300, 301], "max_tokens": 4, "temperature": 0})
    out["stream"] = chat(url, "hello", stream=True)
    out["stream usage"] = chat(url, "hello", stream=True, stream_options={"include_usage": True})
    out["stream continuous usage"] = chat(url, "hello", stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True})
    out["stream n=2"] = chat(url, "hello", stream=True, n=2, max_tokens=2, temperature=1, seed=1)
    out["stream_options without stream"] = chat(url, "hello", stream_options={"include_usage": True})
    out["stream token ids"] = chat(url, "hello", stream=True, return_token_ids=True)
    out["stream stop"] = chat(url, "hello", stream=True, max_tokens=20, stop=[" "])
    out["completion stream"] = ask(url, "POST", "/v1/completions", {"model": "tiny", "prompt": "hello there", "max_tokens": 3, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}})
    forced = {"type": "function", "function": {"name": "add"}}
    out["tool call named"] = chat(url, "add 1 and 2", tools=TOOLS, tool_choice=forced, max_tokens=24)
    out["tool call named stream"] = chat(url, "add 1 and 2", tools=TOOLS, tool_choice=forced, max_tokens=12, stream=True)
    out["tool call required stream"] = chat(url, "add 1 and 2", tools=TOOLS, tool_choice="required", max_tokens=12, stream=True)
    out["json schema"] = chat(url, "colour", max_tokens=30, response_format={"type": "json_schema", "json_schema": {"name": "c", "schema": {"type": "object", "properties": {"c": {"enum": ["red", "blue"]}}, "required": ["c"], "additionalProperties": False}}})
    out["return_prompt_text"] = chat(url, agent(), tools=TOOLS, return_prompt_text=True, max_tokens=1)
    out["tools bare, prompt text"] = chat(url, "q", tools=[{"type": "function", "function": {"name": "f"}}], return_prompt_text=True, max_tokens=1)
    out["unknown field"] = chat(url, "hello", no_such_field=1, prompt_cache_key="k", session_id="s")
    out["priority 1"] = chat(url, "hello", priority=1)

    # Errors.
    long = "word " * 20000
    out["error too long"] = chat(url, long)
    out["error too long, stream"] = chat(url, long, stream=True)
    out["error max_tokens over context"] = chat(url, "hello", max_tokens=20000)
    out["error max_tokens 0"] = chat(url, "hello", max_tokens=0)
    out["error model"] = chat(url, "hello", model="nope")
    out["error model, stream"] = chat(url, "hello", model="nope", stream=True)
    out["error bad json"] = ask(url, "POST", "/v1/chat/completions", b'{"model":"tiny",')
    out["error not an object"] = ask(url, "POST", "/v1/chat/completions", b"[1]")
    out["error empty body"] = ask(url, "POST", "/v1/chat/completions", b"")
    out["error content type"] = ask(url, "POST", "/v1/chat/completions", b'{"model":"tiny","messages":[]}', {"Content-Type": "text/plain"})
    out["error validation type"] = chat(url, "hello", temperature="hot")
    out["error validation range"] = chat(url, "hello", temperature=-1)
    out["error no messages"] = ask(url, "POST", "/v1/chat/completions", {"model": "tiny"})
    out["error empty messages"] = chat(url, [])
    out["error role"] = chat(url, [{"role": "boss", "content": "x"}])
    out["error content number"] = chat(url, [{"role": "user", "content": 5}])
    out["error cache_salt empty"] = chat(url, "hello", cache_salt="")
    out["error cache_salt slash"] = chat(url, "hello", cache_salt="a/b")
    out["error cache_salt long"] = chat(url, "hello", cache_salt="a" * 200)
    out["error tools empty with choice"] = chat(url, "hello", tools=[], tool_choice="auto")
    out["error tool_choice without tools"] = chat(url, "hello", tool_choice="auto")
    out["error tool_choice unknown function"] = chat(url, "hello", tools=TOOLS, tool_choice={"type": "function", "function": {"name": "zzz"}})
    out["error chat_template"] = chat(url, "hello", chat_template="{{ 1 }}")
    out["error 404 path"] = ask(url, "POST", "/v1/nothing", {})
    out["error 405"] = ask(url, "GET", "/v1/chat/completions")
    out["error arguments not json"] = chat(url, agent(arguments="not json"))
    out["error arguments empty"] = chat(url, agent(arguments=""), return_prompt_text=True)
    out["duplicate keys"] = ask(url, "POST", "/v1/chat/completions", b'{"model":"nope","model":"tiny","messages":[{"role":"user","content":"first","content":"second"}],"max_tokens":1,"return_prompt_text":true}')
    out["lone surrogate"] = ask(url, "POST", "/v1/chat/completions", b'{"model":"tiny","messages":[{"role":"user","content":"x\\ud800y"}],"max_tokens":1,"return_prompt_text":true}')
    out["invalid utf-8"] = ask(url, "POST", "/v1/chat/completions", b'{"model":"tiny","messages":[{"role":"user","content":"x\xffy"}],"max_tokens":1,"return_prompt_text":true}')
    out["image part"] = chat(url, [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}])

    # Helpers for tests.
    out["tokenize messages tools"] = ask(url, "POST", "/tokenize", {"model": "tiny", "messages": agent(), "tools": TOOLS})
    out["tokenize prompt"] = ask(url, "POST", "/tokenize", {"model": "tiny", "prompt": "hello there", "return_token_strs": True})
    out["detokenize"] = ask(url, "POST", "/detokenize", {"model": "tiny", "tokens": [300, 301]})
    out["render"] = chat(url, agent(), path="/v1/chat/completions/render", tools=TOOLS)
    out["render with offsets"] = chat(url, "hello", path="/v1/chat/completions/render", return_token_offsets=True)
    out["completions render"] = ask(url, "POST", "/v1/completions/render", {"model": "tiny", "prompt": "hello there"})

    # Other dialects.
    out["responses"] = ask(url, "POST", "/v1/responses", {"model": "tiny", "input": "hello", "max_output_tokens": 4, "temperature": 0})
    out["responses stream"] = ask(url, "POST", "/v1/responses", {"model": "tiny", "input": "hello", "max_output_tokens": 2, "temperature": 0, "stream": True})
    out["responses previous unknown"] = ask(url, "POST", "/v1/responses", {"model": "tiny", "input": "hello", "previous_response_id": "resp_1"})
    out["responses get unknown"] = ask(url, "GET", "/v1/responses/resp_1")
    out["responses error model"] = ask(url, "POST", "/v1/responses", {"model": "nope", "input": "hello"})
    out["responses error input"] = ask(url, "POST", "/v1/responses", {"model": "tiny"})
    out["messages"] = ask(url, "POST", "/v1/messages", {"model": "tiny", "max_tokens": 4, "messages": [{"role": "user", "content": "hello"}], "temperature": 0})
    out["messages stream"] = ask(url, "POST", "/v1/messages", {"model": "tiny", "max_tokens": 2, "messages": [{"role": "user", "content": "hello"}], "temperature": 0, "stream": True})
    out["messages error model"] = ask(url, "POST", "/v1/messages", {"model": "nope", "max_tokens": 4, "messages": [{"role": "user", "content": "hello"}]})
    out["messages error input"] = ask(url, "POST", "/v1/messages", {"model": "tiny"})
    out["messages count"] = ask(url, "POST", "/v1/messages/count_tokens", {"model": "tiny", "messages": [{"role": "user", "content": "hello"}]})
    return out


def caches(url, mark):
    """cached_tokens of second requests. mark makes the prompts new to the engine."""
    out = {}

    def twice(name, first, second=None, **more):
        text = f"{mark} {name} {LONG}"
        a = first(text)
        b = (second or first)(text)
        out[name] = {"first": cached(url, a[0], **a[1]), "second": cached(url, b[0], **b[1])}

    twice("same", lambda t: (t, {}))
    twice("longer by a turn", lambda t: (t, {}), lambda t: ([{"role": "user", "content": t}, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "go on"}], {}))
    twice("same salt", lambda t: (t, {"cache_salt": "one"}))
    twice("other salt", lambda t: (t, {"cache_salt": "one"}), lambda t: (t, {"cache_salt": "two"}))
    twice("salt then none", lambda t: (t, {"cache_salt": "one"}), lambda t: (t, {}))
    twice("same adapter", lambda t: (t, {"model": "lora-a"}))
    twice("other adapter", lambda t: (t, {"model": "lora-a"}), lambda t: (t, {"model": "lora-b"}))
    twice("base then adapter", lambda t: (t, {}), lambda t: (t, {"model": "lora-b"}))
    twice("prompt_logprobs", lambda t: (t, {}), lambda t: (t, {"prompt_logprobs": 1}))
    twice("priority, user, metadata, sampling", lambda t: (t, {}), lambda t: (t, {"user": "u", "metadata": {"a": "b"}, "temperature": 1, "seed": 3, "stop": ["x"], "logprobs": True, "top_logprobs": 2}))
    twice("response_format", lambda t: (t, {}), lambda t: (t, {"response_format": {"type": "json_object"}}))
    twice("tools order", lambda t: (t, {"tools": TOOLS}), lambda t: (t, {"tools": TOOLS[::-1]}))
    twice("n=2", lambda t: (t, {}), lambda t: (t, {"n": 2, "temperature": 1}))
    out["short prompt"] = {"first": cached(url, f"{mark}"), "second": cached(url, f"{mark}")}
    return out


def equalities(url):
    """Which spellings give the same token ids?"""
    base = ids(url, agent(), tools=TOOLS)
    t = agent()[:2]
    parallel = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": i, "type": "function", "function": {"name": "add", "arguments": "{}"}} for i in ["x1", "x2"]]},
        {"role": "tool", "tool_call_id": "x1", "content": "one"}, {"role": "tool", "tool_call_id": "x2", "content": "two"}]
    swapped = parallel[:2] + [parallel[3], parallel[2]]
    schema = json.loads(json.dumps(TOOLS))
    p = schema[0]["function"]["parameters"]
    schema[0]["function"]["parameters"] = {"required": p["required"], "properties": p["properties"], "type": "object"}
    extra = json.loads(json.dumps(TOOLS))
    extra[0]["function"]["cache_control"] = {"type": "ephemeral"}
    extra[0]["x-note"] = 1

    def tools_with(**fields):
        tools = json.loads(json.dumps(TOOLS))
        tools[0]["function"] |= fields
        return tools

    reordered = [{"function": {k: x["function"][k] for k in ["parameters", "description", "name"]}, "type": "function"} for x in TOOLS]
    no_type = agent()
    no_type[2]["tool_calls"][0] = {k: v for k, v in no_type[2]["tool_calls"][0].items() if k != "type"}
    pairs = {
        "content null | absent": (ids(url, agent()), ids(url, [{k: v for k, v in m.items() if v is not None} for m in agent()])),
        "content null | empty string": (ids(url, agent()), ids(url, agent(content=""))),
        "user string | single text part": (ids(url, t), ids(url, agent(user=[{"type": "text", "text": "Weather in Paris?"}])[:2])),
        "system string | single text part": (ids(url, t), ids(url, agent(system=[{"type": "text", "text": "You are a weather agent."}])[:2])),
        "tool result string | single text part": (ids(url, agent()), ids(url, agent(result=[{"type": "text", "text": '{"t":21}'}]))),
        "text part with cache_control": (ids(url, t), ids(url, agent(user=[{"type": "text", "text": "Weather in Paris?", "cache_control": {"type": "ephemeral"}}])[:2])),
        "message with cache_control": (ids(url, t), ids(url, [t[0], t[1] | {"cache_control": {"type": "ephemeral"}}])),
        "two text parts | joined with newline": (ids(url, agent(user=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])[:2]), ids(url, agent(user="a\nb")[:2])),
        "two text parts | joined with nothing": (ids(url, agent(user=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])[:2]), ids(url, agent(user="ab")[:2])),
        "empty text part dropped": (ids(url, agent(user=[{"type": "text", "text": ""}, {"type": "text", "text": "b"}])[:2]), ids(url, agent(user="b")[:2])),
        "tools [] | absent": (ids(url, t), ids(url, t, tools=[])),
        "tools null | absent": (ids(url, t), ids(url, t, tools=None)),
        "tool_calls [] | absent": (ids(url, t + [{"role": "assistant", "content": "a"}]), ids(url, t + [{"role": "assistant", "content": "a", "tool_calls": []}])),
        "tool_calls null | absent": (ids(url, t + [{"role": "assistant", "content": "a"}]), ids(url, t + [{"role": "assistant", "content": "a", "tool_calls": None}])),
        "refusal, audio, annotations, function_call null | absent": (ids(url, t + [{"role": "assistant", "content": "a"}]), ids(url, t + [{"role": "assistant", "content": "a", "refusal": None, "audio": None, "annotations": None, "function_call": None}])),
        "name, on a template that does not print it": (ids(url, t), ids(url, [t[0], t[1] | {"name": "bob"}])),
        "tools: member order of tool and function": (base, ids(url, agent(), tools=reordered)),
        "tools: order": (base, ids(url, agent(), tools=TOOLS[::-1])),
        "tools: keyword order of parameters": (base, ids(url, agent(), tools=schema)),
        "tools: unknown members": (base, ids(url, agent(), tools=extra)),
        "tools: strict null | absent": (base, ids(url, agent(), tools=tools_with(strict=None))),
        "tools: strict false | absent": (base, ids(url, agent(), tools=tools_with(strict=False))),
        "tools: description null | absent": (ids(url, t, tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}]), ids(url, t, tools=[{"type": "function", "function": {"name": "f", "description": None, "parameters": {}}}])),
        "tools: description empty | absent": (ids(url, t, tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}]), ids(url, t, tools=[{"type": "function", "function": {"name": "f", "description": "", "parameters": {}}}])),
        "tools: parameters null | absent": (ids(url, t, tools=[{"type": "function", "function": {"name": "f"}}]), ids(url, t, tools=[{"type": "function", "function": {"name": "f", "parameters": None}}])),
        "tools: parameters {} | absent": (ids(url, t, tools=[{"type": "function", "function": {"name": "f"}}]), ids(url, t, tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}])),
        "tools with tool_choice none | auto": (ids(url, t, tools=TOOLS, tool_choice="none"), ids(url, t, tools=TOOLS)),
        "tools with tool_choice none | no tools": (ids(url, t, tools=TOOLS, tool_choice="none"), ids(url, t)),
        "tools with tool_choice required | auto": (ids(url, t, tools=TOOLS, tool_choice="required"), ids(url, t, tools=TOOLS)),
        "tools with tool_choice named | auto": (ids(url, t, tools=TOOLS, tool_choice={"type": "function", "function": {"name": "add"}}), ids(url, t, tools=TOOLS)),
        "parallel_tool_calls false | absent": (base, ids(url, agent(), tools=TOOLS, parallel_tool_calls=False)),
        "response_format json_object | absent": (base, ids(url, agent(), tools=TOOLS, response_format={"type": "json_object"})),
        "arguments: whitespace": (base, ids(url, agent(arguments='{ "city" : "Paris", "days": 2 }'), tools=TOOLS)),
        "arguments: escapes": (base, ids(url, agent(arguments='{"city":"\\u0050aris","days":2}'), tools=TOOLS)),
        "arguments: key order": (base, ids(url, agent(arguments='{"days":2,"city":"Paris"}'), tools=TOOLS)),
        "arguments: 2 | 2.0": (base, ids(url, agent(arguments='{"city":"Paris","days":2.0}'), tools=TOOLS)),
        "arguments: 2.0 | 2.00": (ids(url, agent(arguments='{"days":2.0}')), ids(url, agent(arguments='{"days":2.00}'))),
        "arguments: 1e2 | 100.0": (ids(url, agent(arguments='{"days":1e2}')), ids(url, agent(arguments='{"days":100.0}'))),
        "arguments: duplicate keys | last": (ids(url, agent(arguments='{"a":1,"a":2}')), ids(url, agent(arguments='{"a":2}'))),
        "arguments: {} | empty string": (ids(url, agent(arguments="{}")), ids(url, agent(arguments=""))),
        "tool call type absent | function": (ids(url, agent()), ids(url, no_type)),
        "result: JSON whitespace": (base, ids(url, agent(result='{ "t": 21 }'), tools=TOOLS)),
        "result: escapes inside the text": (ids(url, agent(result="a<b")), ids(url, agent(result="a\\u003cb"))),
        "result: name on a tool message": (ids(url, agent()), ids(url, agent(call={"name": "get_weather"}))),
        "reasoning | absent": (ids(url, agent()), ids(url, agent(reasoning={"reasoning": "think"}))),
        "reasoning_content | reasoning": (ids(url, agent(reasoning={"reasoning_content": "think"})), ids(url, agent(reasoning={"reasoning": "think"}))),
        "reasoning empty | absent": (ids(url, agent()), ids(url, agent(reasoning={"reasoning": ""}))),
        "reasoning null | absent": (ids(url, agent()), ids(url, agent(reasoning={"reasoning": None}))),
        "parallel results swapped": (ids(url, parallel), ids(url, swapped)),
        "developer | system": (ids(url, t), ids(url, [t[0] | {"role": "developer"}, t[1]])),
        "chat_template_kwargs known": (ids(url, t), ids(url, t, chat_template_kwargs={"enable_thinking": True})),
        "chat_template_kwargs unknown": (ids(url, t), ids(url, t, chat_template_kwargs={"zzz": True})),
        "reasoning_effort low | absent": (ids(url, t), ids(url, t, reasoning_effort="low")),
        "reasoning_effort none | absent": (ids(url, t), ids(url, t, reasoning_effort="none")),
        "documents | absent": (ids(url, t), ids(url, t, documents=[{"title": "a", "text": "b"}])),
        "documents: member order": (ids(url, t, documents=[{"title": "a", "text": "b"}]), ids(url, t, documents=[{"text": "b", "title": "a"}])),
        "add_generation_prompt false": (ids(url, t), ids(url, t, add_generation_prompt=False)),
        "add_special_tokens true": (ids(url, t), ids(url, t, add_special_tokens=True)),
        "trailing space in user text": (ids(url, t), ids(url, agent(user="Weather in Paris? ")[:2])),
        "NFC | NFD": (ids(url, "caf\u00e9"), ids(url, "cafe\u0301")),
        "max_tokens, seed, user": (ids(url, t), ids(url, t, seed=4, user="u", metadata={"a": "b"}, store=False, service_tier="auto")),
    }
    out = {}
    for name, (a, b) in pairs.items():
        if isinstance(a, str) or isinstance(b, str):
            out[name] = {"error": [x for x in (a, b) if isinstance(x, str)]}
        else:
            out[name] = {"equal": a == b, "tokens": [len(a), len(b)]}
    raw = [json.dumps({"model": "tiny", "max_tokens": 1, "return_token_ids": True, "messages": agent(), "tools": TOOLS}).encode(),
           json.dumps({"tools": reordered, "messages": [dict(reversed(m.items())) for m in agent()], "return_token_ids": True, "max_tokens": 1, "model": "tiny"}, indent=3).encode(),
           json.dumps({"model": "tiny", "max_tokens": 1, "return_token_ids": True, "messages": agent(), "tools": TOOLS}).replace("weather", "\\u0077eather").encode()]
    answers = [json.loads(ask(url, "POST", "/v1/chat/completions", r)["body"])["prompt_token_ids"] for r in raw]
    out["wire: member order, whitespace"] = {"equal": answers[0] == answers[1], "tokens": [len(a) for a in answers[:2]]}
    out["wire: escapes"] = {"equal": answers[0] == answers[2], "tokens": [len(answers[0]), len(answers[2])]}
    tokenized = json.loads(ask(url, "POST", "/tokenize", {"model": "tiny", "messages": agent(), "tools": TOOLS})["body"])["tokens"]
    out["/tokenize | chat"] = {"equal": tokenized == base, "tokens": [len(tokenized), len(base)]}
    generated = json.loads(chat(url, "tell me", return_token_ids=True, max_tokens=40)["body"])
    said = generated["choices"][0]["message"]["content"]
    again = json.loads(ask(url, "POST", "/tokenize", {"model": "tiny", "prompt": said, "add_special_tokens": False})["body"])["tokens"]
    out["generated turn, tokenized again"] = {"equal": again == generated["choices"][0]["token_ids"], "tokens": [len(generated["choices"][0]["token_ids"]), len(again)]}
    return out


def keep_alive(url):
    """How long an idle connection lives."""
    at = urlsplit(url)
    s = socket.create_connection((at.hostname, at.port))
    s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    first = s.recv(65536).decode()
    start = time.monotonic()
    s.settimeout(30)
    closed = s.recv(1) == b""
    s.close()
    return {"answer": first, "closed_by_server": closed, "idle_seconds": round(time.monotonic() - start, 2)}


def cancel(url):
    """Closes a stream in the middle; what the metrics say afterwards."""
    def metrics():
        names = ["vllm:num_requests_running", "vllm:request_success_total", "vllm:generation_tokens_total", "disconnect"]
        lines = ask(url, "GET", "/metrics")["body"].splitlines()
        return [x for x in lines if any(n in x for n in names) and not x.startswith("#") and not x.endswith(" 0.0")]
    before = metrics()
    at = urlsplit(url)
    connection = http.client.HTTPConnection(at.hostname, at.port)
    body = {"model": "tiny", "messages": [{"role": "user", "content": "go"}], "max_tokens": 4000, "ignore_eos": True, "stream": True}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    first = answer.read1(400).decode()
    during = metrics()
    start = time.monotonic()
    connection.sock and connection.sock.close()
    answer.close()
    connection.close()
    gone = None
    while time.monotonic() - start < 10:
        if any(x.startswith("vllm:num_requests_running") for x in metrics()):
            time.sleep(0.02)
            continue
        gone = round(time.monotonic() - start, 3)
        break
    return {"first_bytes": first, "before": before, "during": during, "after": metrics(), "seconds_until_not_running": gone}


def key_questions(url):
    out = {}
    for path in ["/health", "/metrics", "/version", "/v1/models", "/load", "/ping"]:
        answer = ask(url, "GET", path)
        out[f"no key GET {path}"] = answer | {"body": answer.get("body", "")[:200]}
    out["no key POST /tokenize"] = ask(url, "POST", "/tokenize", {"model": "tiny", "prompt": "x"})
    out["no key chat"] = chat(url, "hello")
    out["no key chat stream"] = chat(url, "hello", stream=True)
    out["bad key chat"] = chat(url, "hello", headers={"Authorization": "Bearer wrong"})
    out["no key messages"] = ask(url, "POST", "/v1/messages", {"model": "tiny", "max_tokens": 4, "messages": [{"role": "user", "content": "hello"}]})
    out["x-api-key messages"] = ask(url, "POST", "/v1/messages", {"model": "tiny", "max_tokens": 4, "messages": [{"role": "user", "content": "hello"}]}, {"x-api-key": "secret"})
    out["no key, unknown path below /v1"] = ask(url, "GET", "/v1/nothing")
    key = {"Authorization": "Bearer secret"}
    out["render"] = chat(url, agent(), path="/v1/chat/completions/render", tools=TOOLS, headers=key)
    out["render with offsets"] = chat(url, "hello", path="/v1/chat/completions/render", return_token_offsets=True, headers=key)
    out["completions render"] = ask(url, "POST", "/v1/completions/render", {"model": "tiny", "prompt": "hello there"}, key)
    out["messages render"] = ask(url, "POST", "/v1/messages/render", {"model": "tiny", "max_tokens": 4, "messages": [{"role": "user", "content": "hello"}]}, key)
    chatted = json.loads(chat(url, agent(), tools=TOOLS, return_token_ids=True, headers=key)["body"])["prompt_token_ids"]
    out["render gives the ids of chat"] = json.loads(out["render"]["body"]).get("token_ids") == chatted
    out["lora unload"] = ask(url, "POST", "/v1/unload_lora_adapter", {"lora_name": "lora-b"}, key)
    out["lora unloaded, chat"] = chat(url, "hello", model="lora-b", headers=key)
    out["lora unload again"] = ask(url, "POST", "/v1/unload_lora_adapter", {"lora_name": "lora-b"}, key)
    out["lora load existing"] = ask(url, "POST", "/v1/load_lora_adapter", {"lora_name": "lora-a", "lora_path": "/nowhere"}, key)
    out["lora load missing path"] = ask(url, "POST", "/v1/load_lora_adapter", {"lora_name": "lora-c", "lora_path": "/nowhere"}, key)
    out["good key chat"] = chat(url, "hello", headers={"Authorization": "Bearer secret"})
    return out


def plain_questions(url):
    return {"usage first": chat(url, LONG), "usage second": chat(url, LONG),
            "stream usage": chat(url, LONG, stream=True, max_tokens=1, stream_options={"include_usage": True}),
            "responses usage": ask(url, "POST", "/v1/responses", {"model": "tiny", "input": LONG, "max_output_tokens": 1}),
            "error tools without parser": chat(url, "hello", tools=TOOLS),
            "tools with choice none": chat(url, "hello", tools=TOOLS, tool_choice="none")}


def think_questions(url):
    return {"chat": chat(url, "hello"), "stream": chat(url, "hello", stream=True),
            "include_reasoning false": chat(url, "hello", include_reasoning=False),
            "responses": ask(url, "POST", "/v1/responses", {"model": "tiny", "input": "hello", "max_output_tokens": 4}),
            "messages": ask(url, "POST", "/v1/messages", {"model": "tiny", "max_tokens": 4, "messages": [{"role": "user", "content": "hello"}]})}


def busy_questions(url):
    """One runs, one may wait: what do the others get?"""
    answers = [None] * 6

    def one(i, stream):
        answers[i] = chat(url, f"{i} go", max_tokens=400, ignore_eos=True, stream=stream)
    threads = [threading.Thread(target=one, args=(i, i == 5)) for i in range(6)]
    for t in threads:
        t.start()
        time.sleep(0.15)
    health = ask(url, "GET", "/health")
    for t in threads:
        t.join()
    for a in answers:
        if a["status"] == 200:
            a["body"] = a["body"][:200] + "..."
    rejected = [x for x in ask(url, "GET", "/metrics")["body"].splitlines() if "admission" in x]
    return {"answers": answers, "health while full": health, "metrics": rejected}


def ending(url, stop, auth=None, watch=25):
    """Runs a long stream and a plain request of some seconds, calls stop, and
    writes down what they and new requests see, with the seconds since stop."""
    at = urlsplit(url)
    start = time.monotonic()
    out = {"stream": [], "plain": None, "new": []}
    headers = {"Content-Type": "application/json"} | (auth or {})

    def since():
        return round(time.monotonic() - start, 2)

    def stream():
        connection = http.client.HTTPConnection(at.hostname, at.port, timeout=30)
        body = {"model": "tiny", "messages": [{"role": "user", "content": "go"}], "max_tokens": 6000, "ignore_eos": True, "stream": True}
        last = []
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
            answer = connection.getresponse()
            for line in answer:
                if line.strip():
                    last = (last + [line.decode().strip()])[-3:]
            out["stream"] = {"at": since(), "last lines": last, "ended": "EOF"}
        except Exception as error:
            out["stream"] = {"at": since(), "last lines": last, "ended": f"{type(error).__name__}: {error}"}

    def plain():
        answer = chat(url, "go on", max_tokens=400, ignore_eos=True, headers=auth)
        if len(answer.get("body", "")) > 1500:
            answer["body"] = answer["body"][:200] + " ... " + answer["body"][-700:]
        out["plain"] = {"at": since(), "answer": answer}

    threads = [threading.Thread(target=stream), threading.Thread(target=plain)]
    for t in threads:
        t.start()
    time.sleep(1)
    start = time.monotonic()
    stop()
    seen = None
    while since() < watch:
        row = {"health": ask(url, "GET", "/health", timeout=2), "chat": chat(url, "hello", headers=auth), "stream": chat(url, "hello", stream=True, headers=auth),
               "completion of token ids": ask(url, "POST", "/v1/completions", {"model": "tiny", "prompt": [5, 300, 301], "max_tokens": 2}, auth)}
        key = json.dumps([[a.get("status"), a.get("error")] for a in row.values()])
        if key != seen:
            seen = key
            out["new"].append({"at": since()} | row)
        if row["health"].get("error", "").startswith("ConnectionRefused"):
            break
        time.sleep(0.1)
    for t in threads:
        t.join()
    return out


def drain(where):
    url, _, pid = where.partition("#")
    return ending(url, lambda: os.kill(int(pid), signal.SIGTERM), {"Authorization": "Bearer secret"})


def abort(where):
    url, _, pid = where.partition("#")
    return ending(url, lambda: os.kill(int(pid), signal.SIGTERM))


def dead(where):
    url, _, pid = where.partition("#")

    def kill():
        table = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", pid], capture_output=True, text=True).stdout
        for line in table.splitlines():
            if "EngineCore" in line:
                os.kill(int(line.split()[0]), signal.SIGKILL)
    return ending(url, kill)


def metric_names(url):
    """Every metric of the engine with its type and label names, values left out."""
    out = {}
    kind = {}
    for line in ask(url, "GET", "/metrics")["body"].splitlines():
        if line.startswith("# TYPE"):
            _, _, name, t = line.split()
            kind[name] = t
        elif line.startswith(("vllm:", "http_")):
            name, _, rest = line.partition("{")
            labels = [x.split("=")[0] for x in rest.rpartition("}")[0].split('",') if x]
            entry = out.setdefault(name.split(" ")[0], {"labels": labels, "series": 0})
            entry["series"] += 1
            if "_info" in name:
                entry["example"] = line
    for name in out:
        base = name
        for suffix in ["", "_bucket", "_sum", "_count"]:
            if name.endswith(suffix) and name.removesuffix(suffix) in kind:
                base = name.removesuffix(suffix)
        out[name]["type"] = kind.get(base, "?")
    return {k: v for k, v in out.items() if not k.endswith("_created")}


def everything(url):
    return {"answers": main_questions(url), "equal token ids": equalities(url), "cached tokens": caches(url, f"{time.time():.0f}"),
            "keep alive": keep_alive(url), "cancel": cancel(url), "metrics": metric_names(url)}


SETS = {"main": everything, "key": key_questions, "plain": plain_questions, "think": think_questions,
        "busy": busy_questions, "drain": drain, "abort": abort, "dead": dead}


def main():
    path, *named = sys.argv[1:]
    out = {}
    if os.path.exists(path):
        with open(path) as file:
            out = json.load(file)
    for item in named:
        name, _, where = item.partition("=")
        url = where.partition("#")[0]
        out["engine"] = json.loads(ask(url, "GET", "/version")["body"])
        out["date"] = time.strftime("%Y-%m-%d")
        # Nothing of this machine: the model's path stands in /v1/models.
        roots = [(card["root"], "MODELS/" + card["id"]) for card in json.loads(ask(url, "GET", "/v1/models", headers={"Authorization": "Bearer secret"})["body"])["data"]]
        text = json.dumps(SETS[name](where))
        for root, instead in roots:
            text = text.replace(root, instead)
        if name in ("drain", "abort"):
            out.setdefault(name, []).append(json.loads(text))
        else:
            out[name] = json.loads(text)
        with open(path, "w") as file:
            file.write(json.dumps(out, indent=1, ensure_ascii=False) + "\n")
        print(name, "done")


if __name__ == "__main__":
    main()
