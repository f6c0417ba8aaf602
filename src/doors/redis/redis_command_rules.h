/*
 * The commands as data: one line each. From it come the check of arguments, COMMAND, the list of
 * requests with their rights, and what is called.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_COMMAND_RULES_H
#define LEASED_DOORS_REDIS_REDIS_COMMAND_RULES_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redis_run;

enum redis_command_flag {
    REDIS_F_READ = 1 << 0,     /* reads keys: over a view, without a log entry */
    REDIS_F_WRITE = 1 << 1,    /* changes something: a rule */
    REDIS_F_LOCAL = 1 << 2,    /* done by the connection */
    REDIS_F_BLOCK = 1 << 3,    /* may wait for a key */
    REDIS_F_NOSCRIPT = 1 << 4, /* not from a script */
    REDIS_F_NOMULTI = 1 << 5,  /* not inside of MULTI */
    REDIS_F_NOAUTH = 1 << 6,   /* for connections that have not logged in */
    REDIS_F_PUBSUB = 1 << 7,   /* for connections of RESP2 that have subscribed */
    REDIS_F_FAST = 1 << 8,     /* for COMMAND */
    REDIS_F_MOVABLE = 1 << 9,  /* its keys are counted by an argument */
    REDIS_F_ADMIN = 1 << 10,
    REDIS_F_NOW = 1 << 11 /* inside of MULTI it is not queued */
};

/* X(token, name, arity, right, flags, first key, last key, step, group, function). The arity counts
 * the name, and is negative for "at least". The right is that of doors/door.h; the letters of the
 * flags are those of redis_command_rules.c. */
#define REDIS_COMMANDS(X)                                                                          \
    /* Connections. */                                                                             \
    X(AUTH, "auth", -2, NONE, L | S | F | NOAUTH | NOW, 0, 0, 0, "connection", NULL)               \
    X(HELLO, "hello", -1, NONE, L | S | F | NOAUTH | NOW, 0, 0, 0, "connection", NULL)             \
    X(QUIT, "quit", -1, NONE, L | S | F | NOAUTH | P | NOW, 0, 0, 0, "connection", NULL)           \
    X(RESET, "reset", 1, NONE, L | S | F | NOAUTH | P | NOW, 0, 0, 0, "connection", NULL)          \
    X(PING, "ping", -1, USER, L | F | P, 0, 0, 0, "connection", NULL)                              \
    X(ECHO, "echo", 2, USER, L | F, 0, 0, 0, "connection", NULL)                                   \
    X(SELECT, "select", 2, USER, L | F, 0, 0, 0, "connection", NULL)                               \
    X(CLIENT, "client", -2, USER, L | S, 0, 0, 0, "connection", NULL)                              \
    /* The server. */                                                                              \
    X(INFO, "info", -1, USER, L, 0, 0, 0, "server", NULL)                                          \
    X(COMMAND, "command", -1, USER, L, 0, 0, 0, "server", NULL)                                    \
    X(CONFIG, "config", -2, USER, L | S | ADMIN, 0, 0, 0, "server", NULL)                          \
    X(TIME, "time", 1, USER, R | F, 0, 0, 0, "server", redis_server_time)                          \
    X(ACL, "acl", -2, USER, L | S, 0, 0, 0, "server", NULL)                                        \
    X(WAIT, "wait", 3, USER, L | S, 0, 0, 0, "generic", NULL)                                      \
    X(WAITAOF, "waitaof", 4, USER, L | S, 0, 0, 0, "generic", NULL)                                \
    X(LASTSAVE, "lastsave", 1, USER, L | F, 0, 0, 0, "server", NULL)                               \
    X(ROLE, "role", 1, USER, L | F, 0, 0, 0, "server", NULL)                                       \
    X(DBSIZE, "dbsize", 1, READ, R | F, 0, 0, 0, "server", redis_server_dbsize)                    \
    X(FLUSHDB, "flushdb", -1, WRITE, W, 0, 0, 0, "server", redis_server_flushdb)                   \
    X(FLUSHALL, "flushall", -1, WRITE, W, 0, 0, 0, "server", redis_server_flushall)                \
    X(CONFIGURE, "leased.configure", 3, ROOT, W | S | ADMIN, 0, 0, 0, "server",                    \
      redis_server_configure)                                                                      \
    /* Transactions. */                                                                            \
    X(MULTI, "multi", 1, USER, L | S | F | NOW, 0, 0, 0, "transactions", NULL)                     \
    X(EXEC, "exec", 1, USER, L | S | NOW, 0, 0, 0, "transactions", NULL)                           \
    X(DISCARD, "discard", 1, USER, L | S | F | NOW, 0, 0, 0, "transactions", NULL)                 \
    X(WATCH, "watch", -2, READ, L | S | F | NOW, 1, -1, 1, "transactions", NULL)                   \
    X(UNWATCH, "unwatch", 1, USER, L | S | F, 0, 0, 0, "transactions", NULL)                       \
    /* Publish and subscribe. */                                                                   \
    X(SUBSCRIBE, "subscribe", -2, USER, L | S | P, 0, 0, 0, "pubsub", NULL)                        \
    X(UNSUBSCRIBE, "unsubscribe", -1, USER, L | S | P, 0, 0, 0, "pubsub", NULL)                    \
    X(PSUBSCRIBE, "psubscribe", -2, USER, L | S | P, 0, 0, 0, "pubsub", NULL)                      \
    X(PUNSUBSCRIBE, "punsubscribe", -1, USER, L | S | P, 0, 0, 0, "pubsub", NULL)                  \
    X(SSUBSCRIBE, "ssubscribe", -2, USER, L | S | P, 0, 0, 0, "pubsub", NULL)                      \
    X(SUNSUBSCRIBE, "sunsubscribe", -1, USER, L | S | P, 0, 0, 0, "pubsub", NULL)                  \
    X(PUBSUB, "pubsub", -2, USER, L, 0, 0, 0, "pubsub", NULL)                                      \
    X(PUBLISH, "publish", 3, USER, W | F, 0, 0, 0, "pubsub", redis_server_publish)                 \
    X(SPUBLISH, "spublish", 3, USER, W | F, 0, 0, 0, "pubsub", redis_server_publish)               \
    /* Scripts. */                                                                                 \
    X(EVAL, "eval", -3, READ_WRITE, W | S | M, 0, 0, 0, "scripting", redis_scripting_eval)         \
    X(EVALSHA, "evalsha", -3, READ_WRITE, W | S | M, 0, 0, 0, "scripting", redis_scripting_eval)   \
    X(EVAL_RO, "eval_ro", -3, READ, R | S | M, 0, 0, 0, "scripting", redis_scripting_eval)         \
    X(EVALSHA_RO, "evalsha_ro", -3, READ, R | S | M, 0, 0, 0, "scripting", redis_scripting_eval)   \
    X(SCRIPT, "script", -2, USER, W | S, 0, 0, 0, "scripting", redis_scripting_script)             \
    /* Keys of any type. */                                                                        \
    X(DEL, "del", -2, WRITE, W, 1, -1, 1, "generic", redis_key_del)                                \
    X(UNLINK, "unlink", -2, WRITE, W | F, 1, -1, 1, "generic", redis_key_del)                      \
    X(EXISTS, "exists", -2, READ, R | F, 1, -1, 1, "generic", redis_key_exists)                    \
    X(TOUCH, "touch", -2, READ, R | F, 1, -1, 1, "generic", redis_key_exists)                      \
    X(TYPE, "type", 2, READ, R | F, 1, 1, 1, "generic", redis_key_type)                            \
    X(OBJECT, "object", -2, READ, R, 2, 2, 1, "generic", redis_key_object)                         \
    X(KEYS, "keys", 2, READ, R, 0, 0, 0, "generic", redis_key_keys)                                \
    X(SCAN, "scan", -2, READ, R, 0, 0, 0, "generic", redis_scan_keys)                              \
    X(RANDOMKEY, "randomkey", 1, READ, R, 0, 0, 0, "generic", redis_key_randomkey)                 \
    X(RENAME, "rename", 3, READ_WRITE, W, 1, 2, 1, "generic", redis_key_rename)                    \
    X(RENAMENX, "renamenx", 3, READ_WRITE, W | F, 1, 2, 1, "generic", redis_key_rename)            \
    X(COPY, "copy", -3, READ_WRITE, W, 1, 2, 1, "generic", redis_key_copy)                         \
    X(EXPIRE, "expire", -3, WRITE, W | F, 1, 1, 1, "generic", redis_expire_set)                    \
    X(PEXPIRE, "pexpire", -3, WRITE, W | F, 1, 1, 1, "generic", redis_expire_set)                  \
    X(EXPIREAT, "expireat", -3, WRITE, W | F, 1, 1, 1, "generic", redis_expire_set)                \
    X(PEXPIREAT, "pexpireat", -3, WRITE, W | F, 1, 1, 1, "generic", redis_expire_set)              \
    X(TTL, "ttl", 2, READ, R | F, 1, 1, 1, "generic", redis_expire_ttl)                            \
    X(PTTL, "pttl", 2, READ, R | F, 1, 1, 1, "generic", redis_expire_ttl)                          \
    X(EXPIRETIME, "expiretime", 2, READ, R | F, 1, 1, 1, "generic", redis_expire_time)             \
    X(PEXPIRETIME, "pexpiretime", 2, READ, R | F, 1, 1, 1, "generic", redis_expire_time)           \
    X(PERSIST, "persist", 2, WRITE, W | F, 1, 1, 1, "generic", redis_expire_persist)               \
    X(LEASED_TOKEN, "leased.token", 2, READ, R | F, 1, 1, 1, "generic", redis_key_token)           \
    X(LEASED_FENCE, "leased.fence", 3, WRITE, W | F, 1, 1, 1, "generic", redis_key_fence_check)    \
    /* Strings. */                                                                                 \
    X(GET, "get", 2, READ, R | F, 1, 1, 1, "string", redis_string_get)                             \
    X(SET, "set", -3, WRITE, W, 1, 1, 1, "string", redis_string_set)                               \
    X(SETNX, "setnx", 3, WRITE, W | F, 1, 1, 1, "string", redis_string_setnx)                      \
    X(SETEX, "setex", 4, WRITE, W, 1, 1, 1, "string", redis_string_setex)                          \
    X(PSETEX, "psetex", 4, WRITE, W, 1, 1, 1, "string", redis_string_setex)                        \
    X(GETSET, "getset", 3, READ_WRITE, W | F, 1, 1, 1, "string", redis_string_getset)              \
    X(GETDEL, "getdel", 2, READ_WRITE, W | F, 1, 1, 1, "string", redis_string_getdel)              \
    X(GETEX, "getex", -2, READ_WRITE, W | F, 1, 1, 1, "string", redis_string_getex)                \
    X(MGET, "mget", -2, READ, R | F, 1, -1, 1, "string", redis_string_mget)                        \
    X(MSET, "mset", -3, WRITE, W, 1, -1, 2, "string", redis_string_mset)                           \
    X(MSETNX, "msetnx", -3, WRITE, W, 1, -1, 2, "string", redis_string_mset)                       \
    X(APPEND, "append", 3, WRITE, W | F, 1, 1, 1, "string", redis_string_append)                   \
    X(STRLEN, "strlen", 2, READ, R | F, 1, 1, 1, "string", redis_string_strlen)                    \
    X(GETRANGE, "getrange", 4, READ, R, 1, 1, 1, "string", redis_string_getrange)                  \
    X(SUBSTR, "substr", 4, READ, R, 1, 1, 1, "string", redis_string_getrange)                      \
    X(SETRANGE, "setrange", 4, WRITE, W, 1, 1, 1, "string", redis_string_setrange)                 \
    X(INCR, "incr", 2, WRITE, W | F, 1, 1, 1, "string", redis_string_incr)                         \
    X(DECR, "decr", 2, WRITE, W | F, 1, 1, 1, "string", redis_string_incr)                         \
    X(INCRBY, "incrby", 3, WRITE, W | F, 1, 1, 1, "string", redis_string_incr)                     \
    X(DECRBY, "decrby", 3, WRITE, W | F, 1, 1, 1, "string", redis_string_incr)                     \
    X(INCRBYFLOAT, "incrbyfloat", 3, WRITE, W | F, 1, 1, 1, "string", redis_string_incrbyfloat)    \
    /* Bits of strings. */                                                                         \
    X(SETBIT, "setbit", 4, READ_WRITE, W, 1, 1, 1, "bitmap", redis_bit_setbit)                     \
    X(GETBIT, "getbit", 3, READ, R | F, 1, 1, 1, "bitmap", redis_bit_getbit)                       \
    X(BITCOUNT, "bitcount", -2, READ, R, 1, 1, 1, "bitmap", redis_bit_bitcount)                    \
    X(BITPOS, "bitpos", -3, READ, R, 1, 1, 1, "bitmap", redis_bit_bitpos)                          \
    X(BITFIELD, "bitfield", -2, READ_WRITE, W, 1, 1, 1, "bitmap", redis_bit_bitfield)              \
    X(BITFIELD_RO, "bitfield_ro", -2, READ, R | F, 1, 1, 1, "bitmap", redis_bit_bitfield)          \
    /* Hashes. */                                                                                  \
    X(HSET, "hset", -4, WRITE, W | F, 1, 1, 1, "hash", redis_hash_hset)                            \
    X(HMSET, "hmset", -4, WRITE, W | F, 1, 1, 1, "hash", redis_hash_hset)                          \
    X(HSETNX, "hsetnx", 4, WRITE, W | F, 1, 1, 1, "hash", redis_hash_hsetnx)                       \
    X(HGET, "hget", 3, READ, R | F, 1, 1, 1, "hash", redis_hash_hget)                              \
    X(HMGET, "hmget", -3, READ, R | F, 1, 1, 1, "hash", redis_hash_hmget)                          \
    X(HGETALL, "hgetall", 2, READ, R, 1, 1, 1, "hash", redis_hash_hgetall)                         \
    X(HDEL, "hdel", -3, WRITE, W | F, 1, 1, 1, "hash", redis_hash_hdel)                            \
    X(HEXISTS, "hexists", 3, READ, R | F, 1, 1, 1, "hash", redis_hash_hexists)                     \
    X(HLEN, "hlen", 2, READ, R | F, 1, 1, 1, "hash", redis_hash_hlen)                              \
    X(HKEYS, "hkeys", 2, READ, R, 1, 1, 1, "hash", redis_hash_hgetall)                             \
    X(HVALS, "hvals", 2, READ, R, 1, 1, 1, "hash", redis_hash_hgetall)                             \
    X(HINCRBY, "hincrby", 4, WRITE, W | F, 1, 1, 1, "hash", redis_hash_hincrby)                    \
    X(HINCRBYFLOAT, "hincrbyfloat", 4, WRITE, W | F, 1, 1, 1, "hash", redis_hash_hincrbyfloat)     \
    X(HSTRLEN, "hstrlen", 3, READ, R | F, 1, 1, 1, "hash", redis_hash_hstrlen)                     \
    X(HSCAN, "hscan", -3, READ, R, 1, 1, 1, "hash", redis_scan_elements)                           \
    X(HRANDFIELD, "hrandfield", -2, READ, R, 1, 1, 1, "hash", redis_hash_hrandfield)               \
    /* Sets. */                                                                                    \
    X(SADD, "sadd", -3, WRITE, W | F, 1, 1, 1, "set", redis_set_sadd)                              \
    X(SREM, "srem", -3, WRITE, W | F, 1, 1, 1, "set", redis_set_srem)                              \
    X(SMEMBERS, "smembers", 2, READ, R, 1, 1, 1, "set", redis_set_smembers)                        \
    X(SISMEMBER, "sismember", 3, READ, R | F, 1, 1, 1, "set", redis_set_sismember)                 \
    X(SMISMEMBER, "smismember", -3, READ, R | F, 1, 1, 1, "set", redis_set_smismember)             \
    X(SCARD, "scard", 2, READ, R | F, 1, 1, 1, "set", redis_set_scard)                             \
    X(SPOP, "spop", -2, WRITE, W | F, 1, 1, 1, "set", redis_set_spop)                              \
    X(SRANDMEMBER, "srandmember", -2, READ, R, 1, 1, 1, "set", redis_set_srandmember)              \
    X(SMOVE, "smove", 4, READ_WRITE, W | F, 1, 2, 1, "set", redis_set_smove)                       \
    X(SINTER, "sinter", -2, READ, R, 1, -1, 1, "set", redis_setop_read)                            \
    X(SUNION, "sunion", -2, READ, R, 1, -1, 1, "set", redis_setop_read)                            \
    X(SDIFF, "sdiff", -2, READ, R, 1, -1, 1, "set", redis_setop_read)                              \
    X(SINTERCARD, "sintercard", -3, READ, R | M, 0, 0, 0, "set", redis_setop_card)                 \
    X(SINTERSTORE, "sinterstore", -3, READ_WRITE, W, 1, -1, 1, "set", redis_setop_store)           \
    X(SUNIONSTORE, "sunionstore", -3, READ_WRITE, W, 1, -1, 1, "set", redis_setop_store)           \
    X(SDIFFSTORE, "sdiffstore", -3, READ_WRITE, W, 1, -1, 1, "set", redis_setop_store)             \
    X(SSCAN, "sscan", -3, READ, R, 1, 1, 1, "set", redis_scan_elements)                            \
    /* Sorted sets. */                                                                             \
    X(ZADD, "zadd", -4, WRITE, W | F, 1, 1, 1, "sorted-set", redis_zset_zadd)                      \
    X(ZINCRBY, "zincrby", 4, WRITE, W | F, 1, 1, 1, "sorted-set", redis_zset_zincrby)              \
    X(ZREM, "zrem", -3, WRITE, W | F, 1, 1, 1, "sorted-set", redis_zset_zrem)                      \
    X(ZSCORE, "zscore", 3, READ, R | F, 1, 1, 1, "sorted-set", redis_zset_zscore)                  \
    X(ZMSCORE, "zmscore", -3, READ, R | F, 1, 1, 1, "sorted-set", redis_zset_zmscore)              \
    X(ZCARD, "zcard", 2, READ, R | F, 1, 1, 1, "sorted-set", redis_zset_zcard)                     \
    X(ZRANK, "zrank", 3, READ, R | F, 1, 1, 1, "sorted-set", redis_zset_zrank)                     \
    X(ZREVRANK, "zrevrank", 3, READ, R | F, 1, 1, 1, "sorted-set", redis_zset_zrank)               \
    X(ZCOUNT, "zcount", 4, READ, R | F, 1, 1, 1, "sorted-set", redis_zrange_count)                 \
    X(ZLEXCOUNT, "zlexcount", 4, READ, R | F, 1, 1, 1, "sorted-set", redis_zrange_count)           \
    X(ZRANGE, "zrange", -4, READ, R, 1, 1, 1, "sorted-set", redis_zrange_read)                     \
    X(ZREVRANGE, "zrevrange", -4, READ, R, 1, 1, 1, "sorted-set", redis_zrange_read)               \
    X(ZRANGEBYSCORE, "zrangebyscore", -4, READ, R, 1, 1, 1, "sorted-set", redis_zrange_read)       \
    X(ZREVRANGEBYSCORE, "zrevrangebyscore", -4, READ, R, 1, 1, 1, "sorted-set", redis_zrange_read) \
    X(ZRANGEBYLEX, "zrangebylex", -4, READ, R, 1, 1, 1, "sorted-set", redis_zrange_read)           \
    X(ZREVRANGEBYLEX, "zrevrangebylex", -4, READ, R, 1, 1, 1, "sorted-set", redis_zrange_read)     \
    X(ZRANGESTORE, "zrangestore", -5, READ_WRITE, W, 1, 2, 1, "sorted-set", redis_zrange_store)    \
    X(ZREMRANGEBYSCORE, "zremrangebyscore", 4, WRITE, W, 1, 1, 1, "sorted-set",                    \
      redis_zrange_remove)                                                                         \
    X(ZREMRANGEBYRANK, "zremrangebyrank", 4, WRITE, W, 1, 1, 1, "sorted-set", redis_zrange_remove) \
    X(ZREMRANGEBYLEX, "zremrangebylex", 4, WRITE, W, 1, 1, 1, "sorted-set", redis_zrange_remove)   \
    X(ZPOPMIN, "zpopmin", -2, WRITE, W | F, 1, 1, 1, "sorted-set", redis_zset_zpop)                \
    X(ZPOPMAX, "zpopmax", -2, WRITE, W | F, 1, 1, 1, "sorted-set", redis_zset_zpop)                \
    X(ZRANDMEMBER, "zrandmember", -2, READ, R, 1, 1, 1, "sorted-set", redis_zset_zrandmember)      \
    X(ZSCAN, "zscan", -3, READ, R, 1, 1, 1, "sorted-set", redis_scan_elements)                     \
    X(BZPOPMIN, "bzpopmin", -3, WRITE, W | S | B | F, 1, -2, 1, "sorted-set", redis_zset_bzpop)    \
    X(BZPOPMAX, "bzpopmax", -3, WRITE, W | S | B | F, 1, -2, 1, "sorted-set", redis_zset_bzpop)    \
    X(ZUNION, "zunion", -3, READ, R | M, 0, 0, 0, "sorted-set", redis_zsetop_read)                 \
    X(ZINTER, "zinter", -3, READ, R | M, 0, 0, 0, "sorted-set", redis_zsetop_read)                 \
    X(ZDIFF, "zdiff", -3, READ, R | M, 0, 0, 0, "sorted-set", redis_zsetop_read)                   \
    X(ZINTERCARD, "zintercard", -3, READ, R | M, 0, 0, 0, "sorted-set", redis_zsetop_read)         \
    X(ZUNIONSTORE, "zunionstore", -4, READ_WRITE, W | M, 1, 1, 1, "sorted-set",                    \
      redis_zsetop_store)                                                                          \
    X(ZINTERSTORE, "zinterstore", -4, READ_WRITE, W | M, 1, 1, 1, "sorted-set",                    \
      redis_zsetop_store)                                                                          \
    X(ZDIFFSTORE, "zdiffstore", -4, READ_WRITE, W | M, 1, 1, 1, "sorted-set", redis_zsetop_store)  \
    X(ZMPOP, "zmpop", -4, WRITE, W | M, 0, 0, 0, "sorted-set", redis_zset_zmpop)                   \
    X(BZMPOP, "bzmpop", -5, WRITE, W | B | M, 0, 0, 0, "sorted-set", redis_zset_zmpop)             \
    /* Lists. */                                                                                   \
    X(LPUSH, "lpush", -3, WRITE, W | F, 1, 1, 1, "list", redis_list_push)                          \
    X(RPUSH, "rpush", -3, WRITE, W | F, 1, 1, 1, "list", redis_list_push)                          \
    X(LPUSHX, "lpushx", -3, WRITE, W | F, 1, 1, 1, "list", redis_list_push)                        \
    X(RPUSHX, "rpushx", -3, WRITE, W | F, 1, 1, 1, "list", redis_list_push)                        \
    X(LPOP, "lpop", -2, WRITE, W | F, 1, 1, 1, "list", redis_list_pop)                             \
    X(RPOP, "rpop", -2, WRITE, W | F, 1, 1, 1, "list", redis_list_pop)                             \
    X(LMPOP, "lmpop", -4, WRITE, W | M, 0, 0, 0, "list", redis_list_lmpop)                         \
    X(BLMPOP, "blmpop", -5, WRITE, W | B | M, 0, 0, 0, "list", redis_list_lmpop)                   \
    X(LLEN, "llen", 2, READ, R | F, 1, 1, 1, "list", redis_list_llen)                              \
    X(LRANGE, "lrange", 4, READ, R, 1, 1, 1, "list", redis_list_lrange)                            \
    X(LINDEX, "lindex", 3, READ, R, 1, 1, 1, "list", redis_list_lindex)                            \
    X(LSET, "lset", 4, WRITE, W, 1, 1, 1, "list", redis_list_lset)                                 \
    X(LREM, "lrem", 4, WRITE, W, 1, 1, 1, "list", redis_list_lrem)                                 \
    X(LTRIM, "ltrim", 4, WRITE, W, 1, 1, 1, "list", redis_list_ltrim)                              \
    X(LINSERT, "linsert", 5, WRITE, W, 1, 1, 1, "list", redis_list_linsert)                        \
    X(LPOS, "lpos", -3, READ, R, 1, 1, 1, "list", redis_list_lpos)                                 \
    X(LMOVE, "lmove", 5, READ_WRITE, W, 1, 2, 1, "list", redis_list_move)                          \
    X(RPOPLPUSH, "rpoplpush", 3, READ_WRITE, W, 1, 2, 1, "list", redis_list_move)                  \
    X(BLPOP, "blpop", -3, WRITE, W | S | B, 1, -2, 1, "list", redis_list_bpop)                     \
    X(BRPOP, "brpop", -3, WRITE, W | S | B, 1, -2, 1, "list", redis_list_bpop)                     \
    X(BLMOVE, "blmove", 6, READ_WRITE, W | S | B, 1, 2, 1, "list", redis_list_move)                \
    X(BRPOPLPUSH, "brpoplpush", 4, READ_WRITE, W | S | B, 1, 2, 1, "list", redis_list_move)        \
    /* Streams. */                                                                                 \
    X(XADD, "xadd", -5, WRITE, W | F, 1, 1, 1, "stream", redis_stream_xadd)                        \
    X(XDEL, "xdel", -3, WRITE, W | F, 1, 1, 1, "stream", redis_stream_xdel)                        \
    X(XTRIM, "xtrim", -4, WRITE, W, 1, 1, 1, "stream", redis_stream_xtrim)                         \
    X(XLEN, "xlen", 2, READ, R | F, 1, 1, 1, "stream", redis_stream_xlen)                          \
    X(XRANGE, "xrange", -4, READ, R, 1, 1, 1, "stream", redis_stream_xrange)                       \
    X(XREVRANGE, "xrevrange", -4, READ, R, 1, 1, 1, "stream", redis_stream_xrange)                 \
    X(XREAD, "xread", -4, READ, R | M, 0, 0, 0, "stream", redis_stream_xread)

enum redis_command_id {
#define X(token, ...) REDIS_CMD_##token,
    REDIS_COMMANDS(X)
#undef X
        REDIS_N_COMMANDS
};

/* As enum door_right, which rules do not know. */
enum redis_right {
    REDIS_RIGHT_NONE,
    REDIS_RIGHT_USER,
    REDIS_RIGHT_ROOT,
    REDIS_RIGHT_READ,
    REDIS_RIGHT_WRITE,
    REDIS_RIGHT_READ_WRITE
};

struct redis_command {
    enum redis_command_id id;
    const char *name;
    int arity;
    enum redis_right right;
    uint32_t flags;
    int first_key; /* 0: none */
    int last_key;  /* negative: from the end */
    int key_step;
    const char *group;
    /* Appends one value to the reply. The number of arguments has been checked. */
    void (*run)(struct redis_run *run, const struct bytes *argv, size_t argc);
};

extern const struct redis_command redis_commands[REDIS_N_COMMANDS];

/* NULL: there is none of that name, whatever its case. */
const struct redis_command *redis_command_find(struct bytes name);
bool redis_command_takes(const struct redis_command *command, size_t argc);

/* The keys of a command: places in its arguments. A command whose keys are counted has a step of 1,
 * and a gap where another key is in front of their number. */
struct redis_key_places {
    size_t first;
    size_t n;
    size_t step;
    size_t gap; /* between the first and the second */
};

static inline size_t redis_key_place(const struct redis_key_places *places, size_t i) {
    return places->first + i * places->step + (i > 0 ? places->gap : 0);
}

/* False when they cannot be told, because the arguments are wrong. */
bool redis_command_keys(const struct redis_command *command, const struct bytes *argv, size_t argc,
                        struct redis_key_places *out_places);

/* What FLUSHALL and FLUSHDB answer when more is to be deleted than one run may. */
#define REDIS_FLUSH_UNFINISHED "ERR more keys than one transaction may delete"

/* Checks the name and the number of arguments, and runs it: one value is the reply. */
void redis_command_run(struct redis_run *run, const struct bytes *argv, size_t argc);

typedef void redis_command_function(struct redis_run *run, const struct bytes *argv, size_t argc);

/* Those of the table, each in the file of its group. */
redis_command_function redis_scripting_eval, redis_scripting_script, redis_server_time,
    redis_server_dbsize, redis_server_flushdb, redis_server_flushall, redis_server_configure,
    redis_server_publish, redis_key_del, redis_key_exists, redis_key_type, redis_key_object,
    redis_key_keys, redis_scan_keys, redis_key_randomkey, redis_key_rename, redis_key_copy,
    redis_expire_set, redis_expire_ttl, redis_expire_time, redis_expire_persist, redis_key_token,
    redis_key_fence_check, redis_string_get, redis_string_set, redis_string_setnx,
    redis_string_setex, redis_string_getset, redis_string_getdel, redis_string_getex,
    redis_string_mget, redis_string_mset, redis_string_append, redis_string_strlen,
    redis_string_getrange, redis_string_setrange, redis_string_incr, redis_string_incrbyfloat,
    redis_bit_setbit, redis_bit_getbit, redis_bit_bitcount, redis_bit_bitpos, redis_bit_bitfield,
    redis_hash_hset, redis_hash_hsetnx, redis_hash_hget, redis_hash_hmget, redis_hash_hgetall,
    redis_hash_hdel, redis_hash_hexists, redis_hash_hlen, redis_hash_hincrby,
    redis_hash_hincrbyfloat, redis_hash_hstrlen, redis_hash_hrandfield, redis_scan_elements,
    redis_set_sadd, redis_set_srem, redis_set_smembers, redis_set_sismember, redis_set_smismember,
    redis_set_scard, redis_set_spop, redis_set_srandmember, redis_set_smove, redis_setop_read,
    redis_setop_card, redis_setop_store, redis_zset_zadd, redis_zset_zincrby, redis_zset_zrem,
    redis_zset_zscore, redis_zset_zmscore, redis_zset_zcard, redis_zset_zrank, redis_zrange_count,
    redis_zrange_read, redis_zrange_store, redis_zrange_remove, redis_zset_zpop,
    redis_zset_zrandmember, redis_zset_bzpop, redis_zset_zmpop, redis_zsetop_read,
    redis_zsetop_store, redis_list_push, redis_list_pop, redis_list_lmpop, redis_list_llen,
    redis_list_lrange, redis_list_lindex, redis_list_lset, redis_list_lrem, redis_list_ltrim,
    redis_list_linsert, redis_list_lpos, redis_list_move, redis_list_bpop, redis_stream_xadd,
    redis_stream_xdel, redis_stream_xtrim, redis_stream_xlen, redis_stream_xrange,
    redis_stream_xread;

#endif
