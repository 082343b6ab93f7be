"""nursery.py: programs that start at once, although importing their modules takes seconds: one process imports them, and forks.

    python3 nursery.py SOCKET MODULE        until its standard input ends

A program calls enter() before the imports that take long. If NEIGHBORS_NURSERY names sockets, with ":" between them, a nursery there
forks a process that calls main() of the module with the program's arguments, environment and standard files; the program itself only waits for it. If
the program is killed, so is that process. The loader reads LD_LIBRARY_PATH when a process starts, so a nursery serves only
programs that have the same; and none if a library has loaded the driver already, because a process that uses CUDA cannot fork. A
program that is not served imports its modules by itself.

With NEIGHBORS_ASK a program ends at once: `gridsmith run` has then only said how it would share the GPU.
"""
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys

FILES = 3  # standard input, output and error
MOST_BYTES = 1 << 17


def enter(name):
    """For a program whose module has this name. Returns if the program has to import its modules by itself."""
    if name != "__main__":
        return
    if "NEIGHBORS_ASK" in os.environ:
        sys.exit()
    for path in filter(None, os.environ.get("NEIGHBORS_NURSERY", "").split(":")):
        ask(path)


def ask(path):
    """Returns if the nursery does not serve this program."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as nursery:
        nursery.connect(path)
        signal.signal(signal.SIGUSR1, lambda *_: nursery.send(b"stacks"))
        given = {"arguments": sys.argv, "environment": dict(os.environ)}
        socket.send_fds(nursery, [json.dumps(given).encode()], range(FILES))
        answer = nursery.recv(MOST_BYTES).decode()
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    if answer != "no":
        sys.exit(int(answer or 1))


def become(module, given, files):
    """In the new process, which ends as programs do."""
    sys.argv = given["arguments"]
    os.environ.clear()
    os.environ.update(given["environment"])
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.exit(module.main())


class Nursery:
    def __init__(self, path, module):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path)
        self.listener.listen(256)  # programs that come while it imports wait
        self.module, self.watched, self.is_open = importlib.import_module(module), selectors.DefaultSelector(), True
        gc.freeze()
        with open("/proc/self/maps") as maps:
            self.can_fork = "/libcuda.so" not in maps.read()
        self.watched.register(self.listener, selectors.EVENT_READ, self.admit)
        self.watched.register(sys.stdin, selectors.EVENT_READ, self.end)

    def admit(self):
        program, _ = self.listener.accept()
        message, files, _, _ = socket.recv_fds(program, MOST_BYTES, FILES)
        given = json.loads(message)
        if self.can_fork and given["environment"].get("LD_LIBRARY_PATH") == os.environ.get("LD_LIBRARY_PATH"):
            self.bear(program, given, files)
        else:
            program.send(b"no")
            program.close()
        for file in files:
            os.close(file)

    def bear(self, program, given, files):
        child = os.fork()
        if not child:
            become(self.module, given, files)
        handle = os.pidfd_open(child)
        self.watched.register(program, selectors.EVENT_READ, lambda: self.obey(program, child))
        self.watched.register(handle, selectors.EVENT_READ, lambda: self.bury(program, child, handle))

    def obey(self, program, child):
        """The program sends something if the process shall print its stacks; its end is the end of the process."""
        os.kill(child, signal.SIGUSR1 if program.recv(MOST_BYTES) else signal.SIGKILL)

    def bury(self, program, child, handle):
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for part in (program, handle):
            self.watched.unregister(part)
        try:
            program.send(str(abs(code)).encode())
        except OSError:
            pass  # it has been killed
        program.close()
        os.close(handle)

    def end(self):
        self.is_open = False

    def serve(self):
        while self.is_open:
            for key, _ in self.watched.select():
                key.data()


if __name__ == "__main__":
    Nursery(sys.argv[1], sys.argv[2]).serve()
