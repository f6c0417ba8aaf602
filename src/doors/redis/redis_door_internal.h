/*
 * The door and its connections, for the files of this folder that speak with clients. Everything
 * happens on the loop's thread.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_DOOR_INTERNAL_H
#define LEASED_DOORS_REDIS_REDIS_DOOR_INTERNAL_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/keyed_hash.h"
#include "base/list.h"
#include "core/service.h"
#include "doors/authenticator.h"
#include "doors/door.h"
#include "doors/redis/redis_exec_rules.h"
#include "doors/redis/redis_parser.h"
#include "net/raw_protocol.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum {
    REDIS_PENDING_MAX = 1024,              /* commands of one connection on their way */
    REDIS_VALUE_BITS_MAX = 20,             /* of the size of a value: a mebibyte */
    REDIS_VALUE_BUCKETS = 1024,            /* by the hash of its key … */
    REDIS_VALUE_ANYWHERE = 0,              /* … or this one */
    REDIS_PENDING_BYTES_MAX = 1024 * 1024, /* of their requests */
    REDIS_NAME_SIZE_MAX = 64,              /* of CLIENT SETNAME and SETINFO */
    REDIS_ARENA_USES = 64,                 /* commands until the scratch memory is given back */
    /* What open transactions, watched keys and clients that wait for keys hold, of all connections.
     * Small ones always have room. */
    REDIS_HELD_BYTES_MAX = 64 * 1024 * 1024,
    REDIS_HELD_SMALL = 4 * 1024
};

/* The release whose commands are served. */
#define REDIS_VERSION_SHOWN "7.0.15"

struct redis_cursors;
struct redis_output;
struct redis_pubsub;
struct redis_waits;
struct redis_waiter;

struct redis_door {
    const struct door_environment *environment;
    struct service *service;
    struct arena arena;      /* of one command */
    struct buffer scratch;   /* replies that are being made */
    struct buffer converted; /* for a client */
    struct buffer encoded;   /* requests of the rule */
    struct hash_key hash_key;
    uint64_t random;
    uint64_t next_client_id;
    struct list connections;
    size_t n_connections;
    struct redis_parser_limits limits;
    /* struct redis_connection, whose next command is much work: until the next iteration of the
     * loop, or until there is less on its way. */
    struct list delayed;
    struct list delayed_served; /* as `delayed`, of those that had their turn in this iteration */
    struct list delayed_rules;
    struct list delayed_long_reads;
    uv_timer_t *delay_timer;
    uv_timer_t *rest_timer; /* active: no command that is much work begins */
    size_t work;            /* that is on its way, of commands that are much */
    /* Commands on their way, by the bits of the size of the large value that they may make: all of
     * them, and by the hash of the key. */
    uint32_t n_values[REDIS_VALUE_BITS_MAX + 1];
    uint32_t n_values_in[REDIS_VALUE_BUCKETS][REDIS_VALUE_BITS_MAX + 1];
    size_t held_bytes; /* of REDIS_HELD_BYTES_MAX */
    size_t read_bytes; /* of replies to reads, in that iteration of the loop */
    uint64_t paced_ms; /* the millisecond in which `n_paced` changes were run under pressure */
    unsigned n_paced;
    uint64_t read_iteration;
    size_t n_long_reads;
    struct redis_output *output;
    struct redis_cursors *cursors;
    struct redis_pubsub *pubsub;
    struct redis_waits *waits;
    struct {
        uint64_t connections; /* accepted */
        uint64_t commands;
        uint64_t errors;   /* replies that were errors */
        uint64_t reads;    /* over the view */
        uint64_t rules;    /* submitted */
        uint64_t messages; /* delivered to subscribers */
        uint64_t started_ms;
    } stats;
};

int64_t redis_door_wall_ms(const struct redis_door *door);
uint64_t redis_door_random(struct redis_door *door);
/* Whether authentication is on. */
bool redis_door_asks_who(const struct redis_door *door);

/* Whether so much more may be held for a client that has so much already. */
static inline bool redis_door_may_hold(const struct redis_door *door, size_t held, size_t more) {
    return held + more <= REDIS_HELD_SMALL || door->held_bytes + more <= REDIS_HELD_BYTES_MAX;
}

/* --- One connection. --- */

/* What a transaction has gathered. */
struct redis_multi {
    bool is_open;
    bool is_refused; /* a command was wrong: EXEC will not run */
    size_t n;
    struct buffer commands; /* as redis_exec_put_command() writes them, local ones too */
    size_t n_watches;
    struct buffer watches; /* as redis_exec_put_watch() writes them */
    unsigned db;           /* that a SELECT among them has chosen */
    size_t held;           /* of door->held_bytes */
};

struct redis_connection {
    struct raw_connection *raw;
    struct redis_door *door;
    struct list link; /* of the door's connections */
    uint64_t id;
    uint64_t opened_ms;
    uint64_t used_ms;
    struct list pending; /* struct redis_pending, oldest first */
    size_t n_pending;
    size_t n_reads; /* of them, over the view */
    size_t pending_bytes;
    struct redis_multi *multi;   /* NULL: it has not used one yet */
    struct redis_waiter *waiter; /* NULL: it does not wait for a key */
    struct redis_login *login;   /* NULL: no password is being checked */
    struct list subscriptions;   /* of redis_topics.h */
    size_t n_subscriptions[3];   /* by enum redis_topic_kind */
    size_t subscription_bytes;
    struct redis_scan scan; /* of the request whose bytes come */
    struct list in_delayed; /* of the door's */
    size_t work;            /* of the command that is run next */
    size_t work_made;       /* of it, redis_work_of_made() */
    unsigned made_in;       /* of REDIS_VALUE_BUCKETS, where its value will be */
    uint64_t paced_ms;      /* the millisecond in which `n_paced` changes were run under pressure */
    unsigned n_paced;
    size_t unfit_reply;   /* of the command that waits: its reply found no room; 0: not known */
    uint64_t sent_bytes;  /* in all */
    uint64_t taken_bytes; /* of them, when redis_output.c last looked */
    uint64_t taken_ms;    /* when some more of them had been taken */
    const struct redis_command *last;
    char *name;    /* of CLIENT SETNAME; NULL: none */
    char *library; /* of CLIENT SETINFO */
    char *library_version;
    uint8_t db;
    uint8_t protocol; /* 2 or 3 */
    bool is_stopped;  /* input waits until what is pending is done */
    bool is_full;     /* input waits until less is pending */
    bool is_slow;     /* input waits until output was taken */
    bool is_delayed;  /* input waits until there is time for much work */
    bool is_served;   /* a command of the input that is being handled was run */
    bool shows_tokens;
    bool is_closing;
    bool is_aborted;  /* it did not take what was sent, and will be closed in this iteration */
    bool replies_off; /* CLIENT REPLY OFF */
    uint8_t skips;    /* CLIENT REPLY SKIP: replies that are left out, 2 for the next but one */
    char user[65];    /* that has logged in */
};

/* A command on its way to its reply, in the order of the requests. */
struct redis_pending {
    struct list link;
    struct redis_connection *connection; /* NULL: gone */
    struct redis_door *door;
    struct service_request request;
    struct service_read read;
    const struct redis_command *command;
    /* NULL: the replies are what the rule answered. Makes one reply of the answer. */
    void (*finish)(struct redis_pending *pending, const struct outcome *outcome);
    bool is_with_service;
    bool is_done;
    bool is_read;      /* waits for a read of the service */
    bool is_long;      /* a worker reads: redis_long_read.c */
    bool is_silent;    /* CLIENT REPLY: the client does not want the reply */
    size_t n_commands; /* of a transaction */
    size_t cost;
    size_t work;           /* of door->work */
    unsigned value_bits;   /* of door->n_values; 0: none that is large */
    unsigned value_bucket; /* of door->n_values_in */
    struct buffer encoded; /* the request, if it is needed again */
    struct buffer reply;   /* as it goes to the client */
};

/* --- redis_connection.c --- */

extern const struct raw_protocol redis_protocol;

/* Converts what was made and sends it in the order of the requests. Empties `reply`. */
void redis_connection_reply(struct redis_connection *connection, struct buffer *reply);
/* An entry in the order of the requests; its reply is written later. NULL: out of memory, and the
 * connection is being closed. */
struct redis_pending *redis_pending_create(struct redis_connection *connection,
                                           const struct redis_command *command);
/* The reply, in RESP3 bytes, is known. Frees the entry once it was sent. */
void redis_pending_done(struct redis_pending *pending, struct bytes reply);
void redis_pending_failed(struct redis_pending *pending, enum status status);
/* Submits the rule's request in door->encoded. */
void redis_pending_submit(struct redis_pending *pending);
/* The error that a status means, as a reply. */
void redis_reply_status(struct buffer *out, enum status status);

/* No more input until redis_connection_go_on(). */
void redis_connection_stop(struct redis_connection *connection);
void redis_connection_go_on(struct redis_connection *connection);
/* Bytes that are no reply: a message for a subscriber. */
void redis_connection_push(struct redis_connection *connection, struct bytes push);
/* Runs one command that has been checked, as one of a client. */
void redis_connection_run(struct redis_connection *connection,
                          const struct redis_exec_command *command);
const struct caller *redis_connection_caller(struct redis_connection *connection);
bool redis_connection_is_subscribed(const struct redis_connection *connection);

/* --- redis_delays.c: much work, a little at a time --- */

void redis_delays_open(struct redis_door *door);
void redis_delays_close(struct redis_door *door);
/* Whether the command has to wait, because others that are much work are on their way or have had
 * this iteration's share. Then the connection takes no input until it is given again. Otherwise
 * connection->work says what the command may be. */
bool redis_delays_has_to_wait(struct redis_connection *connection,
                              const struct redis_exec_command *command);
/* Whether a connection's input has been handled for long enough; uv_hrtime() when that began. */
bool redis_delays_turn_is_over(uint64_t begun_ns);
/* The rest of the input is given in the next iteration of the loop, behind those that had no turn
 * in this one. */
void redis_delays_yield(struct redis_connection *connection);
/* A read over the view has made a reply of this size. */
void redis_delays_note_read(struct redis_door *door, size_t reply_size);
/* The command was submitted. */
void redis_delays_begin(struct redis_pending *pending);
/* The size of the largest value that commands on their way may make of the keys of this one; 0: all
 * are small. */
size_t redis_delays_size_to_come(const struct redis_door *door,
                                 const struct redis_exec_command *command);
/* It was answered. */
void redis_delays_end(struct redis_door *door, struct redis_pending *pending);
/* The connection is over. */
void redis_delays_leave(struct redis_connection *connection);
/* The connection takes no input until it is resumed from this list. */
void redis_delays_wait(struct redis_connection *connection, struct list *delayed);
void redis_delays_resume_first(struct list *delayed);

/* --- redis_output.c: what waits until clients take it --- */

struct redis_output *redis_output_create(struct redis_door *door);
void redis_output_destroy(struct redis_output *output);
/* Gives bytes to the client. */
void redis_output_send(struct redis_connection *connection, struct bytes bytes);
/* Whether it is worth while to guess how large a reply will be. */
bool redis_output_is_tight(const struct redis_connection *connection);
/* Whether a reply of about this size may be made now. */
bool redis_output_has_room(struct redis_connection *connection, size_t size);
/* The connection takes no input until there may be room. */
void redis_output_wait(struct redis_connection *connection);
/* Room that nobody else is given while a reply is made, until it is given back. */
void redis_output_promise(struct redis_door *door, size_t size);
void redis_output_unpromise(struct redis_door *door, size_t size);
/* redis_waits_try_unfit() is called again and again until none of them waits for room. */
void redis_output_look_for_room(struct redis_door *door);
/* Whether a message of this size may go to one more subscriber now. False: later; subscribers that
 * take nothing are closed. */
bool redis_output_has_room_for_message(struct redis_door *door, size_t size);
/* False: this subscriber has let too much gather, and is closed. */
bool redis_output_takes_message(struct redis_connection *connection, size_t size);

/* --- redis_long_read.c: reads of a whole database, by a worker --- */

bool redis_long_read_takes(struct redis_door *door, const struct redis_exec_command *command);
/* Whether there are others already. Then the connection takes no input until it is given again. */
bool redis_long_read_has_to_wait(struct redis_connection *connection);
/* An entry that is or will be one of them, until it is answered. */
void redis_long_read_count(struct redis_pending *pending);
void redis_long_read_uncount(struct redis_pending *pending);
/* The entry has its request in `encoded`. */
void redis_long_read_start(struct redis_pending *pending);

/* --- redis_local.c: commands that the connection does itself. Appends to `out`, or has made an
 * entry or sent something itself when it gives false. --- */

bool redis_local_run(struct redis_connection *connection, const struct redis_exec_command *command,
                     struct buffer *out);
/* What it may be in work, in units of core/key_work.h. */
size_t redis_local_work(const struct redis_connection *connection,
                        const struct redis_exec_command *command);

/* --- redis_auth.c --- */

/* AUTH and the AUTH of HELLO: `done` makes the reply of a login that succeeded. */
void redis_auth_log_in(struct redis_connection *connection, struct bytes name,
                       struct bytes password,
                       void (*done)(struct redis_connection *connection, struct buffer *out));
void redis_auth_forget(struct redis_connection *connection);

/* --- redis_info.c, redis_introspection.c --- */

void redis_info_write(struct redis_connection *connection, const struct bytes *argv, size_t argc,
                      struct buffer *out);
void redis_introspection_command(struct redis_connection *connection, const struct bytes *argv,
                                 size_t argc, struct buffer *out);
/* False: an entry was made. */
bool redis_config_run(struct redis_connection *connection, const struct bytes *argv, size_t argc,
                      struct buffer *out);
void redis_client_run(struct redis_connection *connection, const struct bytes *argv, size_t argc,
                      struct buffer *out);

/* --- redis_transaction.c --- */

/* MULTI, EXEC, DISCARD, WATCH, UNWATCH; as redis_local_run(). */
bool redis_transaction_run(struct redis_connection *connection,
                           const struct redis_exec_command *command, struct buffer *out);
/* Puts a command into the open transaction. */
void redis_transaction_queue(struct redis_connection *connection,
                             const struct redis_exec_command *command);
bool redis_transaction_is_open(const struct redis_connection *connection);
/* What the commands of the open transaction may be in work; adds redis_work_of_made() of them. */
size_t redis_transaction_work(struct redis_connection *connection, size_t *out_made);
/* redis_work_kept_bytes() of them. */
size_t redis_transaction_kept_bytes(struct redis_connection *connection);
/* A command was wrong: EXEC will refuse. */
void redis_transaction_refuse(struct redis_connection *connection);
void redis_transaction_clear(struct redis_connection *connection);

/* --- redis_pubsub.c --- */

struct redis_pubsub *redis_pubsub_create(struct redis_door *door);
void redis_pubsub_destroy(struct redis_pubsub *pubsub);
/* SUBSCRIBE and its like, PUBSUB. */
void redis_pubsub_run(struct redis_connection *connection, const struct redis_exec_command *command,
                      struct buffer *out);
void redis_pubsub_leave(struct redis_connection *connection);
/* What PUBSUB may be in work. */
size_t redis_pubsub_work(const struct redis_pubsub *pubsub);
/* Whether so many messages are still to be delivered that more should wait. */
bool redis_pubsub_is_behind(const struct redis_pubsub *pubsub);
/* Whether nobody in the whole cluster can hear a message. */
bool redis_pubsub_is_unheard(const struct redis_pubsub *pubsub);
/* How many of this member's clients a message would reach. */
size_t redis_pubsub_receivers(struct redis_pubsub *pubsub, bool is_sharded, struct bytes channel);

/* --- redis_waits.c --- */

struct redis_waits *redis_waits_create(struct redis_door *door);
void redis_waits_destroy(struct redis_waits *waits);
/* Whether a command may wait for a key: BLPOP and its like, XREAD with BLOCK. */
bool redis_waits_takes(const struct redis_exec_command *command);
void redis_waits_run(struct redis_connection *connection, const struct redis_exec_command *command);
/* The client is gone, or wants to wait no longer. */
void redis_waits_leave(struct redis_connection *connection);
/* Those whose reply had no room try again if there is some, a few at a time. False: none waits. */
bool redis_waits_try_unfit(struct redis_waits *waits);
size_t redis_waits_count(const struct redis_waits *waits);

#endif
