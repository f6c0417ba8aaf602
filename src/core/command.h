/*
 * What goes through the log: commands, one or many to an entry, and what applying one gives. The
 * codec is versioned and checksummed; decoding never trusts its input.
 */
#ifndef LEASED_CORE_COMMAND_H
#define LEASED_CORE_COMMAND_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/status.h"
#include "core/auth.h"
#include "core/lease_table.h"
#include "core/member_table.h"
#include "core/operation.h"

#include <stdint.h>

enum command_type {
    COMMAND_PUT = 1,
    COMMAND_DELETE = 2,
    COMMAND_TXN = 3,
    COMMAND_COMPACT = 4,
    COMMAND_LEASE_GRANT = 5,
    COMMAND_LEASE_REVOKE = 6,
    COMMAND_LEASE_EXPIRE = 7,
    COMMAND_LEASE_CHECKPOINT = 8,
    COMMAND_LEASE_SET_TTL = 9,
    COMMAND_ALARM = 10,
    COMMAND_BARRIER = 11, /* the first entry of a term: checkpoints every lease */
    COMMAND_MEMBERS_BEGIN = 12,
    COMMAND_MEMBER = 13,
    /* From CLUSTER_VERSION_RULES on. */
    COMMAND_RULE = 14,
    COMMAND_AS = 15,   /* another command and its caller: while authentication is on */
    COMMAND_AUTH = 16, /* users, roles and permissions */
    COMMAND_CLUSTER_VERSION = 17
};

/* Checked before proposing. */
enum {
    COMMAND_TXN_OPERATIONS_MAX = 128,
    COMMAND_TXN_TOTAL_MAX = 2048, /* operations and compares, nested ones included */
    COMMAND_TXN_DEPTH_MAX = 16,
    /* A request. The log, the links between members and the snapshots take any that is not larger;
     * how much of it a client may use is each server's own choice, as long as the version of the
     * cluster is CLUSTER_VERSION_RULES at least. */
    COMMAND_SIZE_MAX = 16 * 1024 * 1024,
    /* etcd's 1.5 MiB: what a client may send where nothing else is said, and the most that a
     * member of an earlier release takes. */
    COMMAND_SIZE_DEFAULT = 3 * 512 * 1024
};

enum alarm_type { ALARM_NONE = 0, ALARM_NO_SPACE = 1, ALARM_CORRUPT = 2 };

struct command {
    enum command_type type;
    union {
        struct put_request put;
        struct delete_request delete;
        struct txn_request txn;
        struct {
            int64_t revision;
        } compact;
        struct lease_facts grant;
        struct {
            int64_t id;
        } revoke;
        struct {
            uint64_t term; /* of the leader that proposed it: of no effect in any other */
            size_t n;
            const int64_t *ids;     /* ascending */
            const uint32_t *epochs; /* of the leases meant: see struct lease_facts */
        } expire;
        struct {
            uint64_t term;
            size_t n;
            const int64_t *ids;
            const uint32_t *epochs;
            const int64_t *remaining_ms; /* 0 clears */
        } checkpoint;
        struct {
            int64_t id;
            int64_t ttl_ms;
        } set_ttl;
        struct {
            uint64_t term;      /* of no effect in any other */
            uint64_t committed; /* the index up to which the log was, when this was proposed */
        } barrier;
        struct {
            bool activate;
            uint64_t member_id;
            enum alarm_type alarm;
        } alarm;
        struct {
            uint64_t token_hash;
            size_t n;
            const struct member_facts *members;
        } members_begin;
        struct {
            enum member_action action;
            const struct member_facts *facts; /* of which the action takes what it needs */
        } member;
        struct {
            uint32_t number; /* see rule.h */
            struct bytes request;
        } rule;
        struct {
            uint32_t version;
            /* Who was heard to know it. Of no effect when the table has a member that was not:
             * STATUS_UNSUPPORTED. */
            size_t n;
            const uint64_t *member_ids;
        } cluster_version;
        struct {
            struct caller caller;
            const struct command *command; /* any other */
        } as;
        struct auth_change auth;
    };
};

/* What applying a command gave. Pointers are valid during the callback that hands it over. */
struct outcome {
    enum status status;
    int64_t revision; /* of the store after the command */
    size_t work;      /* of transactions and rules: see key_work.h */
    union {
        struct put_outcome put;
        struct delete_outcome delete;
        struct txn_outcome txn;
        struct {
            int64_t id;
            int64_t ttl_ms;
        } grant;
        struct {
            size_t n_ended; /* leases, of those that still existed */
        } expire;
        struct {
            struct bytes answer; /* with STATUS_OK only */
        } rule;
    };
};

/* The version of the cluster from which on a command may be used. A raise of the version itself may
 * be used before. */
uint32_t command_since_version(enum command_type type);
/* False for a command of that version's types which its releases refuse: they would stop at it in
 * the log. It has passed command_check(). */
bool command_is_of_first_version(const struct command *command);

/* Refuses what must never reach the log: empty keys, limits, duplicate puts in one txn
 * (STATUS_KEY_EMPTY, _KEY_DUPLICATE, _TOO_MANY_OPERATIONS, _REQUEST_TOO_LARGE, _VALUE_PROVIDED,
 * _LEASE_PROVIDED, _LEASE_TTL_TOO_LARGE, _INVALID, those of auth_change_check()). */
enum status command_check(const struct command *command);

/* The command itself, without its caller. */
static inline const struct command *command_inner(const struct command *command) {
    return command->type == COMMAND_AS ? command->as.command : command;
}

/* Appends one command. */
void command_encode(struct buffer *buffer, const struct command *command);
/* Reads one command; views point into the reader's bytes, arrays are in the arena.
 * STATUS_MALFORMED. */
enum status command_decode(struct reader *reader, struct arena *arena, struct command *out_command);

#endif
