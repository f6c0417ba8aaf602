"""Scripts whose work is within single instructions of Lua, where no hook counts. Each is stopped after a few
milliseconds, and another client's puts and renewals do not wait; see test_one_client.py."""
import pytest
from redis_attack import attacked, connections, flood, request

from harness.redis import Resp, leased_with_redis

STOPPED = ("-", b"ERR Error running script: it exceeded its limit of instructions or memory; nothing was done")
# Some fifty milliseconds on a machine of its own; seconds before they were counted.
CPU_SECONDS_MAX = 0.4
COLLIDING = "local function key(i) return struct.unpack('<d', struct.pack('<I4I4', i, 0x40000000 - i)) end "
MANY_LOCALS = ", ".join(f"a{number}" for number in range(59))
ENDLESS = {
    "zero bytes that are compared": ("local a = ('\\0'):rep(50000) local b = a .. 'x' a = a .. 'y'", "local x = a < b"),
    "few zero bytes that are compared": ("local a = ('\\0'):rep(2000) local b = a .. 'x' a = a .. 'y'", "local x = a <= b"),
    "zero bytes that are sorted": ("local t = {} for i = 1, 200 do t[i] = ('\\0'):rep(2000) .. i end", "table.sort(t)"),
    "digits": ("local a = ('9'):rep(5000)", "local x = a + 1"),
    "digits of a tiny number": ("local a = '4.' .. ('9'):rep(760) .. 'e-324'", "local x = a + a"),
    "spaces behind a digit": ("local a = '1' .. (' '):rep(50000)", "local x = a + 1"),
    "loops over digits": ("local a = ('9'):rep(5000)", "for i = a, a, a do end"),
    "remainders": ("local f, a, b = math.fmod, 1.7e308, 4.9e-324", "f(a, b)"),
    "texts of numbers": ("local a = 1.7e308", "local x = a .. '' x = a .. '' x = a .. ''"),
    "a chain of metatables": ("local t = {} for i = 1, 98 do t = setmetatable({}, {__index = t}) end", "local x = t.x"),
    "a ring of metatables": (
        COLLIDING + "local a, b = {}, {} for i = 1, 500 do a[key(i)] = 1 b[key(i)] = 1 end "
        "setmetatable(a, {__index = b}) setmetatable(b, {__index = a}) local k, p = key(9999), pcall "
        "local function f() return a[k] end", "p(f)"),
    "metatables of strings, with keys that collide with __index": (
        "local mt = getmetatable('') for i = 100, 600 do local a, b, c = string.match(i, '(.)(.)(.)') "
        "mt[a .. 'b' .. b .. 'b' .. c .. 'dxaxaxa' .. ('x'):rep(20)] = 1 end mt.__index = 's' "
        "local s, p = 's', pcall local function f() return s.x end", "p(f)"),
    "a length that is misled": (
        "local t = {} for i = 1, 64 do t[i + .5] = 1 end for i = 1, 1024 do t[i] = 1 end for i = 1, 64 do t[i + .5] = nil end "
        "local j = 1025 while j < 2 ^ 31 do t[j] = 1 j = j * 2 end", "local x = #t " * 10),
    "closures over many variables": (f"local {MANY_LOCALS}", f"local f = function() return {MANY_LOCALS} end"),
    "errors in a long function": (
        "local p, c = pcall, {} local function f() local x, y if c then else " + "x=y " * 8000 + "end return c.y.z end", "p(f)"),
    "errors in a source of a long name": ("local p, f = pcall, loadstring('local a a()', ('x'):rep(250000))", "p(f)"),
    "formats that fail": ("local s, p, f = ('a'):rep(64000) .. '%d', pcall, string.format", "p(f, s)"),
    "sizes of many digits": ("local s, p, f = 'i' .. ('0'):rep(60000) .. '4', pcall, struct.pack", "p(f, s, 1)"),
}  # fmt: skip


@pytest.fixture(scope="module", name="server")
def a_server():
    with leased_with_redis() as server:
        yield server


def endless(what):
    before, step = ENDLESS[what]
    return f"redis.call('set', 'left', 1) {before} while true do {step} end"


@pytest.mark.parametrize("what", ENDLESS)
def test_it_is_stopped(server, what):
    with Resp(server.redis_port) as resp:
        before = server.cpu_seconds()
        assert resp("EVAL", endless(what), "0") == STOPPED
        spent = server.cpu_seconds() - before
        assert resp("EXISTS", "left") == (":", b"0")
    assert spent < CPU_SECONDS_MAX, f"{spent:.2f} s"


@pytest.mark.parametrize("what", ENDLESS)
def test_others_do_not_wait(server, what):
    with attacked(server, f"redis: scripts: {what}"):
        with connections(server) as opened:
            flood(opened, request("EVAL", endless(what), "0") * 5)
