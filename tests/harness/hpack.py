"""Header blocks: written by hand so that they can be wrong, read through nghttp2's decoder."""
import ctypes

_library = None


class _NameValue(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.POINTER(ctypes.c_uint8)),
        ("value", ctypes.POINTER(ctypes.c_uint8)),
        ("name_size", ctypes.c_size_t),
        ("value_size", ctypes.c_size_t),
        ("flags", ctypes.c_uint8),
    ]


_INFLATE_FINAL, _INFLATE_EMIT = 1, 2


def _nghttp2():
    global _library  # pylint: disable=global-statement
    if _library is None:
        _library = ctypes.CDLL("libnghttp2.so.14")
        _library.nghttp2_hd_inflate_hd2.restype = ctypes.c_ssize_t
        _library.nghttp2_hd_inflate_hd2.argtypes = [
            ctypes.c_void_p, ctypes.POINTER(_NameValue), ctypes.POINTER(ctypes.c_int),
            ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int,
        ]  # fmt: skip
        _library.nghttp2_hd_inflate_end_headers.argtypes = [ctypes.c_void_p]
        _library.nghttp2_hd_inflate_del.argtypes = [ctypes.c_void_p]
    return _library


class Decoder:
    """The state of one connection's header compression, in the direction towards us."""

    def __init__(self):
        self._inflater = ctypes.c_void_p()
        assert _nghttp2().nghttp2_hd_inflate_new(ctypes.byref(self._inflater)) == 0

    def decode(self, block):
        """{name: value} of one block; the last of several with one name counts."""
        headers = {}
        flags = ctypes.c_int()
        pair = _NameValue()
        while True:
            used = _nghttp2().nghttp2_hd_inflate_hd2(
                self._inflater, ctypes.byref(pair), ctypes.byref(flags), block, len(block), 1
            )
            if used < 0:
                raise ValueError(f"a header block that cannot be read: {used}")
            block = block[used:]
            if flags.value & _INFLATE_EMIT:
                name = ctypes.string_at(pair.name, pair.name_size)
                headers[name.decode()] = ctypes.string_at(pair.value, pair.value_size).decode()
            if flags.value & _INFLATE_FINAL:
                _nghttp2().nghttp2_hd_inflate_end_headers(self._inflater)
                return headers
            if not block and not flags.value & _INFLATE_EMIT:
                raise ValueError("a header block that ends early")

    def __del__(self):
        if self._inflater:
            _nghttp2().nghttp2_hd_inflate_del(self._inflater)


def integer(number, prefix_bits, first=0):
    """RFC 7541, 5.1; `first` holds the bits before the prefix."""
    most = (1 << prefix_bits) - 1
    if number < most:
        return bytes([first | number])
    out = [first | most]
    number -= most
    while number >= 128:
        out.append(number % 128 + 128)
        number //= 128
    return bytes(out + [number])


def string(text):
    return integer(len(text), 7) + text


def literal(name, value):
    """A field with its name spelled out, which changes no table."""
    return b"\x00" + string(name) + string(value)


def literal_indexed(name, value):
    """The same, and both sides remember it."""
    return b"\x40" + string(name) + string(value)


def indexed(index):
    return integer(index, 7, 0x80)


def grpc_request(path, *extra):
    """The header block of a gRPC call; extra are further (name, value)."""
    fields = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"test"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
        *extra,
    ]
    return b"".join(literal(name, value) for name, value in fields)
