"""Listens where an adapter would and speaks another version of its protocol: PATH."""

import json
import socket
import sys

listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(sys.argv[1])
listener.listen()
while True:
    caller, _ = listener.accept()
    asked = json.loads(caller.recv(65536))
    answer = {"id": asked["id"], "result": {"Err": {"version": {"speaks": 999}}}}
    caller.send(json.dumps(answer).encode())
