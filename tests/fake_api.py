#!/usr/bin/env python3
"""A fake model API on loopback, for driving real coding agents in tests. Standard library only.

    fake_api.py --port-file F --log F.jsonl

The base URL that a client is given chooses what the "model" does, so one server serves any number of clients at once:

    http://127.0.0.1:PORT/s/<script>@<run>        the client appends its own path

Wire formats: Anthropic Messages (claude), OpenAI Responses (codex), OpenAI Chat Completions (opencode, qwen, aider, goose,
copilot), Gemini (gemini); model lists and token counts as far as the clients ask for them.

The model reads which story it is to work on from the prompt, as a real one does, and writes `<story>.txt`. Scripts:

    success      writes the file with the client's own file tool; the final text ends in a promise of COMPLETE
    failed-once  the same, but FAILED with a reason, unless the prompt tells of a previous attempt
    decoy        promises COMPLETE beside a tool call that prints the promise; the final text says "not finished"
    background   the shell tool starts a `sleep 600` that outlives it and writes its process id to the file; COMPLETE
    sleep        the shell tool runs `sleep 600` in the foreground
    stall        takes the request and never answers
    drop         answers with the first event of a stream, then closes the connection; other answers are not cut
    401, 429 …   that HTTP status in the provider's own form
    <script>xK+<script>   the first for K requests, then the second: 429x2+success
    limitN+<script>       for N seconds from the first request: usage limit reached, with the time of its reset; then the second
"""
import argparse
import json
import math
import re
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ARGS = None
LOCK = threading.Lock()
REQUESTS = {}          # run -> number of model requests so far
RESETS = {}            # run -> when its usage limit ends

DONE = "<promise>COMPLETE</promise>"
FAIL = "<promise>FAILED: the north wall is missing</promise>"


def step(script, run):
    """Returns the part of the script that this request gets, and the seconds until the usage limit resets."""
    with LOCK:
        REQUESTS[run] = REQUESTS.get(run, 0) + 1
        if m := re.fullmatch(r"([\w-]+)x(\d+)\+([\w-]+)", script):
            return m[1] if REQUESTS[run] <= int(m[2]) else m[3], 1
        if m := re.fullmatch(r"limit(\d+)\+([\w-]+)", script):
            left = RESETS.setdefault(run, time.time() + int(m[1])) - time.time()
            return ("limit", math.ceil(left)) if left > 0 else (m[2], 0)
        return script, 1


# --------------------------------------------------------------------------
# The content of a request, independent of the wire format
# --------------------------------------------------------------------------
class Turn:
    """One model request, reduced to what the script needs."""

    def __init__(self, wire, body):
        self.wire, self.body = wire, body
        self.model = body.get("model") or "fake-model"
        self.stream = bool(body.get("stream"))
        self.tools = {}          # tool name -> ("function"|"custom", JSON schema)
        self.answered = False    # a tool result follows the last user text
        self.text = json.dumps(body)
        getattr(self, "_" + wire)()

    def _anthropic(self):
        for t in self.body.get("tools") or []:
            self.tools[t.get("name", "")] = ("function", t.get("input_schema") or {})
        for m in self.body.get("messages") or []:
            c = m.get("content")
            kinds = [b.get("type") for b in c] if isinstance(c, list) else ["text"]
            if m.get("role") == "user":
                self.answered = "tool_result" in kinds

    def _responses(self):
        for t in self.body.get("tools") or []:
            if t.get("type") in ("function", "custom"):
                self.tools[t.get("name", "")] = (t["type"], t.get("parameters") or {})
        for it in self.body.get("input") or []:
            if not isinstance(it, dict):
                continue
            if it.get("type", "").endswith("_call_output"):
                self.answered = True
            elif it.get("role") == "user":
                self.answered = False

    def _chat(self):
        for t in self.body.get("tools") or []:
            f = t.get("function") or {}
            self.tools[f.get("name", "")] = ("function", f.get("parameters") or {})
        for m in self.body.get("messages") or []:
            if m.get("role") == "tool":
                self.answered = True
            elif m.get("role") == "user":
                self.answered = False

    def _gemini(self):
        for t in self.body.get("tools") or []:
            for f in t.get("functionDeclarations") or []:
                self.tools[f.get("name", "")] = (
                    "function", f.get("parametersJsonSchema") or f.get("parameters") or {})
        for m in self.body.get("contents") or []:
            parts = m.get("parts") or []
            if any("functionResponse" in p for p in parts):
                self.answered = True
            elif m.get("role") == "user" and any("text" in p for p in parts):
                self.answered = False

    def workdir(self):
        """The client's working directory, as it tells the model in its own prompt."""
        for pat in (r"[Ww]orking directory: ?`?(/[^\s\"'`<\\]+)",
                    r"<cwd>(/[^<]+)</cwd>",
                    r"<working_directory>(/[^<]+)<",
                    r"[Cc]urrent(?:ly working in the)? (?:working )?directory(?: is)?:? ?`?(/[^\s\"'`<\\]+)",
                    r"\*\*Workspace Directories:\*\*\\n\s*- (/[^\s\"'`<\\]+)",
                    r"cwd[\"']?: ?\\?[\"']?(/[^\s\"'`<\\]+)"):
            m = re.search(pat, self.text)
            if m:
                return m.group(1).rstrip(".,")
        return "."

    def story(self):
        """The story that the prompt is about, or None if this request is about something else."""
        found = re.search(r"## Story ([\w-]+):", self.text)
        return found and found[1]


# --------------------------------------------------------------------------
# The script: which tool call, which final text
# --------------------------------------------------------------------------
SHELLS = ("Bash", "bash", "shell_command", "exec_command", "run_shell_command",
          "developer__shell", "shell", "local_shell")


def shell_call(turn, cmd):
    """(tool name, arguments) that runs `cmd` with whichever shell tool is offered."""
    for name in SHELLS:
        if name not in turn.tools:
            continue
        props = (turn.tools[name][1] or {}).get("properties") or {}
        if "cmd" in props:
            args = {"cmd": cmd}
        elif (props.get("command") or {}).get("type") == "array":
            args = {"command": ["bash", "-lc", cmd]}
        else:
            args = {"command": cmd}
        if "description" in props:
            args["description"] = "run the scripted command"
        if "is_background" in props:
            args["is_background"] = False
        if "yield_time_ms" in props:
            args["yield_time_ms"] = 30000  # longer than any silence that the tests allow
        return name, args
    return None


def write_call(turn, name, content):
    """(tool name, arguments) that writes a file with the client's own file tool."""
    path = turn.workdir().rstrip("/") + "/" + name
    for tool, make in (
            ("Write", lambda: {"file_path": path, "content": content}),
            ("write_file", lambda: {"file_path": path, "content": content}),
            ("write", lambda: ({"filePath": path, "content": content}
                               if "filePath" in schema_props(turn, "write")
                               else {"path": path, "content": content})),
            ("create", lambda: {"path": path, "file_text": content}),
            ("developer__write", lambda: {"path": path, "content": content}),
            ("developer__text_editor", lambda: {"command": "write", "path": path,
                                                "file_text": content})):
        if tool in turn.tools:
            return tool, make()
    patch = "*** Begin Patch\n*** Add File: %s\n%s*** End Patch\n" % (
        name, "".join("+" + line + "\n" for line in content.rstrip("\n").split("\n")))
    if turn.tools.get("apply_patch", ("",))[0] == "custom":
        return "apply_patch", patch                       # free-form tool: raw text
    if "apply_patch" in turn.tools:
        key = next(iter(schema_props(turn, "apply_patch")), "input")
        return "apply_patch", {key: patch}
    return shell_call(turn, "printf '%%s' '%s' > %s" % (content, name))


def schema_props(turn, tool):
    return (turn.tools[tool][1] or {}).get("properties") or {}


def text_edit(name, content, final):
    """For clients without tools (aider): an edit block in the answer text itself."""
    return "%s\n```\n<<<<<<< SEARCH\n=======\n%s>>>>>>> REPLACE\n```\n\n%s" % (name, content, final)


def act(turn, script):
    """-> ("text", said) or ("tool", said beside it, name, arguments)"""
    story = turn.story()
    can_edit_in_text = not turn.tools and "SEARCH/REPLACE" in turn.text
    if story is None or not (turn.tools or can_edit_in_text):
        return "text", "ok"                      # titles, summaries, topic detection
    name, content = story + ".txt", "hello from story %s\n" % story
    final = "I wrote the file and checked it.\n\n" + DONE
    if script == "failed-once" and "## The previous attempt" not in turn.text:
        final = "I wrote the file, but it is not enough.\n\n" + FAIL
    if script == "decoy":
        final = "The command ran. The work is not finished."
    if can_edit_in_text:
        return "text", text_edit(name, content + DONE + "\n" if script == "decoy" else content, final)
    if turn.answered:
        return "text", final
    said = ""
    if script == "decoy":
        said, call = "I begin.\n\n" + DONE, shell_call(turn, "echo begun > %s; echo '%s'" % (name, DONE))
    elif script == "background":
        call = shell_call(turn, "nohup sleep 600 >/dev/null 2>&1 & echo $! > %s" % name)
    elif script == "sleep":
        call = shell_call(turn, "echo begun > %s; sleep 600" % name)
    else:
        call = write_call(turn, name, content)
    return ("tool", said, *call) if call else ("text", "No usable tool was offered.")


# --------------------------------------------------------------------------
# Errors, in each provider's own form
# --------------------------------------------------------------------------
def error(wire, code, quota, wait):
    """-> (headers, body) for an HTTP error; `wait`: seconds after which it is worth another try."""
    reset = int(time.time()) + wait
    hdr = {}
    if code in (429, 529, 503):
        hdr["retry-after"] = str(wait)
    kinds = {400: "invalid_request_error", 401: "authentication_error",
             413: "request_too_large", 429: "rate_limit_error", 500: "api_error",
             503: "overloaded_error", 529: "overloaded_error"}
    msgs = {400: "prompt is too long: 250000 tokens > 200000 maximum",
            401: "invalid x-api-key", 413: "Request exceeds the maximum size",
            429: "This request would exceed your rate limit. Please try again later.",
            500: "Internal server error", 503: "Service unavailable", 529: "Overloaded"}
    if wire == "anthropic":
        if quota:
            hdr.update({"anthropic-ratelimit-unified-status": "rejected",
                        "anthropic-ratelimit-unified-reset": str(reset),
                        "anthropic-ratelimit-unified-representative-claim": "five_hour",
                        "anthropic-ratelimit-unified-5h-status": "rejected",
                        "anthropic-ratelimit-unified-5h-reset": str(reset),
                        "anthropic-ratelimit-unified-5h-utilization": "1.0",
                        "anthropic-ratelimit-unified-overage-status": "rejected",
                        "x-should-retry": "false"})
        return hdr, {"type": "error", "request_id": "req_fake",
                     "error": {"type": kinds.get(code, "api_error"), "message": msgs.get(code, "not found")}}
    if wire == "gemini":
        status = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED",
                  500: "INTERNAL", 503: "UNAVAILABLE"}.get(code, "UNKNOWN")
        err = {"code": code, "message": msgs.get(code, "not found"), "status": status}
        if code == 429:
            if quota:
                err["message"] = ("You exceeded your current quota, please check your plan and "
                                  "billing details.")
            qid = ("GenerateRequestsPerDayPerProjectPerModel" if quota
                   else "GenerateRequestsPerMinutePerProjectPerModel")
            err["details"] = [
                {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [
                    {"quotaMetric": "generativelanguage.googleapis.com/"
                                    "generate_content_free_tier_requests",
                     "quotaId": qid + "-FreeTier", "quotaValue": "250"}]},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo",
                 "retryDelay": "%ds" % wait}]
        return hdr, {"error": err}
    if quota and wire == "responses":      # the ChatGPT-plan form that Codex knows
        return hdr, {"error": {"type": "usage_limit_reached", "plan_type": "plus",
                               "message": "The usage limit has been reached",
                               "resets_at": reset, "resets_in_seconds": wait}}
    if quota:
        return hdr, {"error": {"type": "insufficient_quota", "code": "insufficient_quota",
                               "param": None,
                               "message": "You exceeded your current quota, please check your "
                                          "plan and billing details."}}
    if code == 429:
        return hdr, {"error": {"type": "tokens", "code": "rate_limit_exceeded", "param": None,
                               "message": "Rate limit reached for fake-model. Please try again "
                                          "in %ds." % wait}}
    return hdr, {"error": {"type": kinds.get(code, "server_error"), "code": None, "param": None,
                           "message": msgs.get(code, "not found")}}


# --------------------------------------------------------------------------
# Answers in each wire format: (events of the stream, the same as one body)
# --------------------------------------------------------------------------
def new_id(prefix):
    return prefix + uuid.uuid4().hex[:20]


def answer_anthropic(turn, said, call):
    blocks = [({"type": "text", "text": ""}, {"type": "text_delta", "text": said},
               {"type": "text", "text": said})] if said else []
    if call:
        tool = {"type": "tool_use", "id": new_id("toolu_"), "name": call[0]}
        blocks.append((dict(tool, input={}), {"type": "input_json_delta", "partial_json": json.dumps(call[1])},
                       dict(tool, input=call[1])))
    stop = "tool_use" if call else "end_turn"
    usage = {"input_tokens": 1200, "cache_creation_input_tokens": 300,
             "cache_read_input_tokens": 4000, "output_tokens": 1}
    message = {"id": new_id("msg_"), "type": "message", "role": "assistant", "model": turn.model,
               "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    events = [{"type": "message_start", "message": message}]
    for i, (start, delta, _) in enumerate(blocks):
        events += [{"type": "content_block_start", "index": i, "content_block": start},
                   {"type": "content_block_delta", "index": i, "delta": delta},
                   {"type": "content_block_stop", "index": i}]
    events += [{"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None},
                "usage": {"output_tokens": 77}}, {"type": "message_stop"}]
    full = dict(message, content=[whole for _, _, whole in blocks], stop_reason=stop,
                usage=dict(usage, output_tokens=77))
    return [(event["type"], event) for event in events], full


def answer_responses(turn, said, call):
    items = []
    if said:
        items.append({"type": "message", "id": new_id("msg_"), "role": "assistant", "status": "completed",
                      "content": [{"type": "output_text", "text": said, "annotations": []}]})
    if call:
        custom = turn.tools[call[0]][0] == "custom"
        items.append({"type": "custom_tool_call" if custom else "function_call", "id": new_id("fc_"),
                      "call_id": new_id("call_"), "status": "completed", "name": call[0],
                      **({"input": call[1]} if custom else {"arguments": json.dumps(call[1])})})
    response = {"id": new_id("resp_"), "object": "response", "created_at": int(time.time()),
                "model": turn.model, "status": "in_progress", "output": [], "error": None}
    full = dict(response, status="completed", output=items, usage={
        "input_tokens": 5500, "input_tokens_details": {"cached_tokens": 4000},
        "output_tokens": 77, "output_tokens_details": {"reasoning_tokens": 10}, "total_tokens": 5577})
    events = [{"type": "response.created", "response": response}]
    for i, item in enumerate(items):
        is_text = item["type"] == "message"
        events.append({"type": "response.output_item.added", "output_index": i,
                       "item": dict(item, content=[]) if is_text else item})
        if is_text:
            events.append({"type": "response.output_text.delta", "item_id": item["id"], "output_index": i,
                           "content_index": 0, "delta": said})
        events.append({"type": "response.output_item.done", "output_index": i, "item": item})
    events.append({"type": "response.completed", "response": full})
    return [(event["type"], dict(event, sequence_number=i)) for i, event in enumerate(events)], full


def answer_chat(turn, said, call):
    message, stop = {"role": "assistant", "content": said or None}, "stop"
    delta = dict(message)
    if call:
        tool = {"id": new_id("call_"), "type": "function",
                "function": {"name": call[0], "arguments": json.dumps(call[1])}}
        message["tool_calls"], delta["tool_calls"], stop = [tool], [dict(tool, index=0)], "tool_calls"
    usage = {"prompt_tokens": 5500, "completion_tokens": 77, "total_tokens": 5577,
             "prompt_tokens_details": {"cached_tokens": 4000}}
    head = {"id": new_id("chatcmpl-"), "created": int(time.time()), "model": turn.model}

    def chunk(choices, **more):
        return None, dict(head, object="chat.completion.chunk", choices=choices, **more)

    def choice(part, finish=None):
        return [{"index": 0, "delta": part, "finish_reason": finish}]

    events = [chunk(choice({"role": "assistant", "content": ""})), chunk(choice(delta)), chunk(choice({}, stop)),
              chunk([], usage=usage), (None, "[DONE]")]
    full = dict(head, object="chat.completion", usage=usage,
                choices=[{"index": 0, "message": message, "finish_reason": stop}])
    return events, full


def answer_gemini(turn, said, call):
    parts = [{"text": said}] if said else []
    if call:
        parts.append({"functionCall": {"id": new_id("fc-"), "name": call[0], "args": call[1]}})
    if "responseJsonSchema" in turn.text or "responseSchema" in turn.text:
        # Which model to use, and who speaks next.
        parts = [{"text": json.dumps({"reasoning": "fake", "model_choice": "flash", "complexity_reasoning": "fake",
                                      "complexity_score": 10, "next_speaker": "user", "corrected": True})}]
    head = {"modelVersion": turn.model, "responseId": new_id("fake-")}
    full = dict(head, candidates=[{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
                usageMetadata={"promptTokenCount": 5500, "candidatesTokenCount": 77,
                               "cachedContentTokenCount": 4000, "totalTokenCount": 5577})
    first = dict(head, candidates=[{"content": {"role": "model", "parts": [{"text": ""}]}, "index": 0}])
    return [(None, first), (None, full)], full


ANSWER = {"anthropic": answer_anthropic, "responses": answer_responses, "chat": answer_chat, "gemini": answer_gemini}


# --------------------------------------------------------------------------
# HTTP
# --------------------------------------------------------------------------
def wire_of(path):
    """The wire format that a path stands for."""
    for end, wire in (("/messages", "anthropic"), ("/responses", "responses"), ("/chat/completions", "chat"),
                      ("enerateContent", "gemini")):
        if path.endswith(end):
            return wire
    return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send_json(self, code, body, headers=()):
        data = json.dumps(body).encode()
        self.send_response(code)
        for name, value in {"content-type": "application/json", "content-length": str(len(data)),
                            "request-id": "req_fake", **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def route(self):
        """-> script, run, the client's own path"""
        found = re.match(r"/s/([^/@]+)@([^/]+)(/.*)?$", self.path.split("?")[0])
        return (found[1], found[2], found[3] or "/") if found else ("404", "nobody", self.path)

    def record(self, run, did, body=None):
        line = {"run": run, "did": did, "method": self.command, "path": self.path, "body": body}
        with LOCK, open(ARGS.log, "a") as log:
            log.write(json.dumps(line) + "\n")

    def read_body(self):
        if (self.headers.get("transfer-encoding") or "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        data = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self):
        self.record(self.route()[1], "list")
        model = {"id": "fake-model", "slug": "fake-model", "object": "model", "type": "model",
                 "display_name": "fake-model", "owned_by": "fake", "created": 0}
        self.send_json(200, {"object": "list", "data": [model], "has_more": False})

    def do_CONNECT(self):
        """Refuses proxy requests. Clients are configured to use this server as their proxy, so requests to other hosts show up here."""
        self.record("nobody", "refused")
        self.send_json(403, {"error": "loopback only"})

    def do_POST(self):
        script, run, path = self.route()
        try:
            body = json.loads(self.read_body() or b"{}")
        except ValueError:
            body = {}
        wire = wire_of(path)
        if wire is None:
            counting = path.endswith(("count_tokens", ":countTokens"))
            self.record(run, "count" if counting else "unknown", body)
            return self.send_json(*((200, {"input_tokens": 1000, "totalTokens": 1000}) if counting
                                    else (404, {"error": {"message": "not found", "type": "not_found"}})))
        if wire == "gemini":
            body["model"], body["stream"] = path.rsplit("/", 1)[1].split(":")[0], "stream" in path

        script, wait = step(script, run)
        if script == "limit" or script.isdigit():
            self.record(run, script, body)
            code = 429 if script == "limit" else int(script)
            headers, error_body = error(wire, code, script == "limit", wait)
            return self.send_json(code, error_body, headers)
        if script == "stall":
            self.record(run, script, body)
            return self.hang()
        turn = Turn(wire, body)
        kind, said, *call = act(turn, script)
        self.record(run, script if script == "drop" else kind, body)
        events, full = ANSWER[wire](turn, said, call)
        if not turn.stream:
            return self.send_json(200, full)
        self.send_response(200)
        for name, value in (("content-type", "text/event-stream"), ("cache-control", "no-cache"),
                            ("request-id", "req_fake"), ("connection", "close")):
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        for name, event in events:
            data = event if isinstance(event, str) else json.dumps(event)
            self.wfile.write((("event: %s\n" % name if name else "") + "data: %s\n\n" % data).encode())
            self.wfile.flush()
            if script == "drop":
                return

    def hang(self):
        """Never answers; returns when the client goes away."""
        self.close_connection = True
        self.connection.settimeout(1)
        while True:
            try:
                if self.connection.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except OSError:
                return


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        # Tests kill clients in the middle of an answer.
        if not isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionResetError)):
            super().handle_error(request, client_address)


def main():
    global ARGS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port-file", required=True, help="gets the port number")
    parser.add_argument("--log", required=True, help="gets every request as a JSON line")
    ARGS = parser.parse_args()
    server = Server(("127.0.0.1", 0), Handler)
    with open(ARGS.port_file, "w") as file:
        file.write(str(server.server_port))
    server.serve_forever()


if __name__ == "__main__":
    main()
