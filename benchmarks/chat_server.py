"""A server that answers every chat completion with the same text, some seconds after it has come.

    python benchmarks/chat_server.py SECONDS TEXT

Its own time must not be what a benchmark measures: one loop does it all, without a framework, and it waits
with ``select``, since event loops round what they wait up to the next millisecond. The port is the first
line on standard output; the end of standard input ends it.
"""

import json
import select
import socket
import sys
import time
from collections import deque


def completion(text: str) -> bytes:
    """Return the response that the server gives to everything."""
    content = {
        "id": "chatcmpl-1",
        "model": "bench",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 500, "completion_tokens": 80, "total_tokens": 580},
    }
    body = json.dumps(content).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def is_whole(request: bytes) -> bool:
    """Say whether all of a request has arrived."""
    head, end, body = request.partition(b"\r\n\r\n")
    length = head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]
    return bool(end) and len(body) >= int(length)


def serve(latency: float, answer: bytes) -> None:
    """Answer every request when the latency is over, until standard input ends; print the port first."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(listener.getsockname()[1], flush=True)
    received: dict[socket.socket, bytes] = {}
    due: deque[tuple[float, socket.socket]] = deque()
    while True:
        wait = max(0.0, due[0][0] - time.monotonic()) if due else None
        readable, _, _ = select.select([sys.stdin, listener, *received], [], [], wait)
        for each in readable:
            if not isinstance(each, socket.socket):
                return  # the parent has closed its end of the pipe: it is done, however it ended
            if each is listener:
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                received[connection] = b""
            elif data := each.recv(1 << 16):
                received[each] += data
                if is_whole(received[each]):
                    received[each] = b""
                    due.append((time.monotonic() + latency, each))
            else:
                del received[each]
                each.close()
        while due and due[0][0] <= time.monotonic():
            due.popleft()[1].send(answer)


if __name__ == "__main__":
    serve(float(sys.argv[1]), completion(sys.argv[2]))
