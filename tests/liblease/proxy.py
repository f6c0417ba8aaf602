"""A TCP connection between a client and a server that can be cut: bytes of both sides then go nowhere."""
import selectors
import socket
import threading


class Proxy:
    """Listens on loopback and carries what comes to `target`, "host:port", until cut()."""

    def __init__(self, target):
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._is_cut = False
        self._is_mute = False
        self._is_late = False
        self._late = []  # (socket, bytes) that wait for let_pass()
        self._is_refusing = False
        self._is_over = False
        self.has_refused = threading.Event()
        self._clients = []
        self._sockets = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self):
        """From now on nothing passes, and nobody is told."""
        self._is_cut = True

    def mute(self):
        """What the server says goes nowhere."""
        self._is_mute = True

    def hold_back(self):
        """What the server says comes when let_pass() is called, and not before."""
        self._is_late = True

    def drop_clients(self):
        """Clients lose their connections and get no other; the server does not learn of it."""
        self._is_refusing = True
        for each in self._clients:
            each.shutdown(socket.SHUT_RDWR)

    def let_pass(self):
        self._is_mute = False
        self._is_late = False
        self._is_refusing = False

    def _connect(self, selector):
        inner, _ = self._listener.accept()
        self._sockets.append(inner)
        if self._is_refusing:
            inner.close()
            self.has_refused.set()
            return
        self._clients.append(inner)
        if self._is_cut:
            return
        outer = socket.create_connection(self._target)
        self._sockets.append(outer)
        selector.register(inner, selectors.EVENT_READ, outer)
        selector.register(outer, selectors.EVENT_READ, inner)

    def _carry(self, selector, source, sink):
        try:
            data = source.recv(65536)
            is_lost = self._is_cut or (self._is_mute and sink in self._clients)
            if data and not is_lost and self._is_late and sink in self._clients:
                self._late.append((sink, data))
            elif data and not is_lost:
                self._send_late()
                sink.sendall(data)
        except OSError:
            data = b""
        if not data:
            selector.unregister(source)

    def _send_late(self):
        while self._late and not self._is_late:
            sink, data = self._late.pop(0)
            sink.sendall(data)

    def _run(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ, None)
            while not self._is_over:
                self._send_late()
                for key, _ in selector.select(0.05):
                    if key.data is None:
                        self._connect(selector)
                    else:
                        self._carry(selector, key.fileobj, key.data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._is_over = True
        self._thread.join()
        for each in [self._listener, *self._sockets]:
            each.close()
