"""liblease by ctypes: the structures and functions of lease.h that the module uses."""
import ctypes
import ctypes.util
import functools
import os
import pathlib
import threading
from ctypes import CFUNCTYPE, POINTER, Structure, c_bool, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64
from ctypes import c_uint, c_void_p

SONAME = "liblease.so.0"


def _candidates():
    if os.environ.get("LEASE_LIBRARY"):
        yield os.environ["LEASE_LIBRARY"]
        return
    # Installed under the same prefix as this module.
    for folder in pathlib.Path(__file__).resolve().parents:
        for pattern in (SONAME, f"*/{SONAME}"):
            yield from (str(path) for path in sorted(folder.glob(pattern)))
        if folder.name in ("lib", "lib64"):
            break
    yield SONAME


def _load():
    errors = []
    for name in _candidates():
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            errors.append(str(error))
    raise ImportError("liblease is not found; set LEASE_LIBRARY to its path: " + "; ".join(errors))


class Options(Structure):
    _fields_ = [
        ("size", c_size_t), ("endpoints", c_char_p), ("ca_file", c_char_p), ("cert_file", c_char_p),
        ("key_file", c_char_p), ("insecure_skip_verify", c_bool), ("user", c_char_p), ("password", c_char_p),
        ("token", c_char_p), ("connect_timeout_ms", c_uint32), ("request_timeout_ms", c_uint32),
        ("protocol", c_int), ("foreign_loop", c_bool), ("owner", c_char_p),
    ]  # fmt: skip


EventCallback = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)


class SessionOptions(Structure):
    _fields_ = [
        ("size", c_size_t), ("purpose", c_int), ("ttl_ms", c_int64), ("strategy", c_int), ("owner", c_char_p),
        ("note", c_char_p), ("parent_id", c_int64), ("on_event", EventCallback), ("context", c_void_p),
    ]  # fmt: skip


class Want(Structure):
    _fields_ = [("resource", c_char_p), ("mode", c_int), ("pool", c_char_p), ("slots", c_uint32)]


class Slot(Structure):
    _fields_ = [("pool", c_char_p), ("slot", c_char_p)]


class Acquisition(Structure):
    _fields_ = [
        ("id", c_int64), ("session_id", c_int64), ("stage", c_int), ("token", c_int64), ("wants", POINTER(Want)),
        ("n_wants", c_size_t), ("slots", POINTER(Slot)), ("n_slots", c_size_t), ("value", c_char_p),
        ("owner", c_char_p), ("hold_limit_ms", c_int64), ("asked_wall_ms", c_int64), ("acquired_wall_ms", c_int64),
        ("request_id", c_char_p),
    ]  # fmt: skip


class Progress(Structure):
    _fields_ = [("position", c_uint32), ("holders", POINTER(Acquisition)), ("n_holders", c_size_t),
                ("holder_remaining_ms", c_int64)]  # fmt: skip


ProgressCallback = CFUNCTYPE(None, POINTER(Progress), c_void_p)
AcquiredCallback = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)


class AcquireOptions(Structure):
    _fields_ = [
        ("size", c_size_t), ("wants", POINTER(Want)), ("n_wants", c_size_t), ("wait_ms", c_int64),
        ("value", c_char_p), ("hold_limit_ms", c_int64), ("queue_limit", c_uint32), ("on_progress", ProgressCallback),
        ("context", c_void_p),
    ]  # fmt: skip


class Resource(Structure):
    _fields_ = [
        ("name", c_char_p), ("holders", POINTER(Acquisition)), ("n_holders", c_size_t), ("n_waiting", c_uint32),
        ("first_waiting", POINTER(Acquisition)), ("n_first_waiting", c_size_t), ("remaining_ms", c_int64),
        ("last_token", c_int64), ("revision", c_int64),
    ]  # fmt: skip


ResourceCallback = CFUNCTYPE(None, POINTER(Resource), c_int, c_char_p, c_void_p)


class SessionInfo(Structure):
    _fields_ = [
        ("id", c_int64), ("owner", c_char_p), ("ttl_ms", c_int64), ("purpose", c_int), ("strategy", c_int),
        ("remaining_ms", c_int64), ("created_revision", c_int64), ("created_wall_ms", c_int64), ("note", c_char_p),
        ("parent_id", c_int64), ("n_acquisitions", c_uint32),
    ]  # fmt: skip


class Share(Structure):
    _fields_ = [("owner", c_char_p), ("weight", c_uint32)]


class SlotState(Structure):
    _fields_ = [("slot", c_char_p), ("acquisition_id", c_int64), ("token", c_int64), ("owner", c_char_p)]


class Pool(Structure):
    _fields_ = [
        ("name", c_char_p), ("slots", POINTER(c_char_p)), ("n_slots", c_size_t), ("hold_limit_ms", c_int64),
        ("shares", POINTER(Share)), ("n_shares", c_size_t), ("taken", POINTER(SlotState)), ("n_taken", c_size_t),
        ("n_waiting", c_uint32),
    ]  # fmt: skip


class Ended(Structure):
    _fields_ = [
        ("acquisition", POINTER(Acquisition)), ("session", POINTER(SessionInfo)), ("reason", c_int), ("by", c_char_p),
        ("revision", c_int64), ("wall_ms", c_int64), ("last_renewal_before_ms", c_int64),
    ]  # fmt: skip


class Change(Structure):
    _fields_ = [("revision", c_int64), ("type", c_int), ("acquisition", POINTER(Acquisition)), ("ended", POINTER(Ended))]


ChangeCallback = CFUNCTYPE(None, POINTER(Change), c_int, c_char_p, c_void_p)


class History(Structure):
    _fields_ = [
        ("ended", POINTER(Ended)), ("n_ended", c_size_t), ("holders", POINTER(Acquisition)), ("n_holders", c_size_t),
        ("session", POINTER(SessionInfo)),
    ]  # fmt: skip


class WhyQuery(Structure):
    _fields_ = [("size", c_size_t), ("resource", c_char_p), ("pool", c_char_p), ("session_id", c_int64),
                ("acquisition_id", c_int64), ("limit", c_uint32)]  # fmt: skip


library = _load()

class Entry(Structure):
    _fields_ = [("key", c_void_p), ("key_size", c_size_t), ("value", c_void_p), ("value_size", c_size_t),
                ("lease_id", c_int64), ("revision", c_int64)]  # fmt: skip


class EntryList(Structure):
    _fields_ = [("items", POINTER(Entry)), ("n_items", c_size_t), ("revision", c_int64), ("age_ms", c_int64)]


DirectoryCallback = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)

# name: (result, arguments); c_int as a result is a status.
_FUNCTIONS = {
    "lease_version": (c_char_p, []),
    "lease_error": (c_char_p, []),
    "lease_status_text": (c_char_p, [c_int]),
    "lease_end_reason_text": (c_char_p, [c_int]),
    "lease_open": (c_int, [POINTER(Options), POINTER(c_void_p)]),
    "lease_close": (None, [c_void_p]),
    "lease_connect": (c_int, [c_void_p]),
    "lease_protocol_used": (c_int, [c_void_p]),
    "lease_fd": (c_int, [c_void_p]),
    "lease_timeout_ms": (c_int, [c_void_p]),
    "lease_process": (None, [c_void_p]),
    "lease_session_create": (c_int, [c_void_p, POINTER(SessionOptions), POINTER(c_void_p)]),
    "lease_session_id": (c_int64, [c_void_p]),
    "lease_session_ttl_ms": (c_int64, [c_void_p]),
    "lease_session_state": (c_int, [c_void_p]),
    "lease_valid_for_ms": (c_int64, [c_void_p]),
    "lease_valid_until_ms": (c_uint64, [c_void_p]),
    "lease_session_touch": (None, [c_void_p]),
    "lease_session_renew": (c_int, [c_void_p]),
    "lease_session_change": (c_int, [c_void_p, c_int64]),
    "lease_session_end": (c_int, [c_void_p]),
    "lease_session_destroy": (None, [c_void_p]),
    "lease_renew_id": (c_int, [c_void_p, c_int64, POINTER(c_int64)]),
    "lease_end_id": (c_int, [c_void_p, c_int64]),
    "lease_acquire_start": (
        c_int, [c_void_p, POINTER(AcquireOptions), AcquiredCallback, c_void_p, POINTER(c_void_p)],
    ),
    "lease_wait_finish": (c_int, [c_void_p, c_int64, POINTER(c_void_p)]),
    "lease_wait_is_over": (c_bool, [c_void_p]),
    "lease_wait_cancel": (None, [c_void_p]),
    "lease_wait_destroy": (None, [c_void_p]),
    "lease_lock_within": (
        c_int, [c_void_p, c_char_p, c_int, c_int64, c_int64, POINTER(c_void_p), POINTER(c_void_p)],
    ),
    "lease_hold_token": (c_int64, [c_void_p]),
    "lease_hold_acquisition": (POINTER(Acquisition), [c_void_p]),
    "lease_hold_valid_for_ms": (c_int64, [c_void_p]),
    "lease_release": (c_int, [c_void_p]),
    "lease_release_start": (None, [c_void_p]),
    "lease_proclaim": (c_int, [c_void_p, c_char_p]),
    "lease_transfer": (c_int, [c_void_p, c_int64, c_char_p]),
    "lease_hold_destroy": (None, [c_void_p]),
    "lease_fence_check": (c_int, [c_void_p, c_char_p, c_int64, POINTER(c_int64)]),
    "lease_fence_get": (c_int, [c_void_p, c_char_p, POINTER(c_int64)]),
    "lease_free": (None, [c_void_p]),
    "lease_resource_get": (c_int, [c_void_p, c_char_p, c_uint32, POINTER(POINTER(Resource))]),
    "lease_pool_set": (c_int, [c_void_p, POINTER(Pool)]),
    "lease_pool_remove": (c_int, [c_void_p, c_char_p]),
    "lease_pool_get": (c_int, [c_void_p, c_char_p, POINTER(POINTER(Pool))]),
    "lease_why": (c_int, [c_void_p, POINTER(WhyQuery), POINTER(POINTER(History))]),
    "lease_observe": (c_int, [c_void_p, c_char_p, ResourceCallback, c_void_p, POINTER(c_void_p)]),
    "lease_watch_changes": (c_int, [c_void_p, c_char_p, c_int64, ChangeCallback, c_void_p, POINTER(c_void_p)]),
    "lease_watch_destroy": (None, [c_void_p]),
    "lease_discover": (c_int, [c_void_p, c_char_p, DirectoryCallback, c_void_p, POINTER(c_void_p)]),
    "lease_directory_wait": (c_int, [c_void_p, c_int64]),
    "lease_directory_entries": (c_int, [c_void_p, POINTER(POINTER(EntryList))]),
    "lease_directory_age_ms": (c_int64, [c_void_p]),
    "lease_directory_destroy": (None, [c_void_p]),
}

for _name, (_result, _arguments) in _FUNCTIONS.items():
    _function = getattr(library, _name)
    _function.restype = _result
    _function.argtypes = _arguments


_in_thread = threading.local()


def callback(kind, calls, function):
    """For the library to call; `calls` are those of its client."""

    def run(*arguments):
        _in_thread.calls = calls
        try:
            function(*arguments)
        finally:
            _in_thread.calls = None

    return kind(run)


def is_in_callback(calls):
    """The library has called this thread, for that client."""
    return getattr(_in_thread, "calls", None) is calls


def counted(method):
    """A method that calls the library, of an object with `_calls`."""

    @functools.wraps(method)
    def run(self, *arguments, **named):
        with self._calls.mine():
            self._calls.check()
            return method(self, *arguments, **named)

    return run


__all__ = ["library", "byref", "counted", "c_uint"]
byref = ctypes.byref
