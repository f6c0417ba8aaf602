/*
 * A connection to a cluster: one socket at a time to one of its endpoints, the calls on it, the
 * timers, and who runs all this. Everything here is guarded by one mutex; callbacks of users are
 * notices, run without it, one at a time (lib_notice.c).
 *
 * lib_connection.c makes and ends it, lib_ready.c connects and authenticates, lib_calls.c keeps the
 * calls, lib_loop.c waits for events.
 */
#ifndef LEASED_LEASE_LIB_CONNECTION_H
#define LEASED_LEASE_LIB_CONNECTION_H

#include "base/endpoint_text.h"
#include "lease/lib_call.h"
#include "lease/lib_error.h"
#include "lease/lib_socket.h"

#include <pthread.h>

enum lib_stage {
    LIB_STAGE_NONE,           /* no socket */
    LIB_STAGE_CONNECTING,     /* a socket is being made */
    LIB_STAGE_AUTHENTICATING, /* a password is being exchanged for a token */
    LIB_STAGE_PROBING,        /* does it speak leased.v1? */
    LIB_STAGE_READY
};

struct lease_connection {
    unsigned n_forks; /* of the process and its ancestors, when it was opened */
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* something that somebody may wait for */
    pthread_t thread;
    bool has_thread;
    bool is_stopping;
    bool is_orphan; /* closed by its own thread, in a callback: that thread destroys it */
    uint64_t farewell_until_ms; /* of an orphan */
    bool is_processing;         /* somebody waits for events, or handles them */

    int epoll_fd;
    int wake_fd;
    int timer_fd;
    int reader_fd;   /* tells the reader that something has changed */
    bool has_reader; /* a thread that waits for its answer reads the socket itself */
    bool is_reader_waiting;
    uint64_t timer_ms; /* what it is set to; UINT64_MAX: not set */

    /* As it was opened. Texts are its own. */
    struct endpoint endpoints[ENDPOINTS_MAX];
    size_t n_endpoints;
    struct tls_context *tls; /* NULL: plain text */
    bool tls_without_scheme;
    char *ca_file;
    char *cert_file;
    char *key_file;
    char *user;
    char *password;
    char *owner;
    uint32_t connect_timeout_ms;
    uint32_t request_timeout_ms;

    enum lease_protocol protocol; /* LEASE_PROTOCOL_ANY: not known yet */
    char *token;                  /* NULL: none */
    bool is_authenticated;
    enum lib_stage stage;
    struct lib_socket *socket;
    size_t endpoint_index;
    uint64_t connect_deadline_ms;
    unsigned n_failures; /* in a row */
    uint64_t retry_ms;   /* not connected again before */
    char last_failure[LIB_TEXT_SIZE_MAX];

    struct list waiting; /* calls for a connection that is ready */
    struct list open;    /* calls that are streams of the socket */
    struct lib_call *current_call;
    bool is_dirty;        /* a callback started something: one more step */
    unsigned n_farewells; /* calls that nobody waits for but that should leave */

    struct list sessions;
    struct list waits;
    struct list watches;
    struct list copies; /* directories and services */
    struct list registrations;
    struct list late_keys;     /* of lib_etcd_late.c */
    struct lib_call *renewals; /* the stream of renewals; NULL: none */
    uint64_t next_number;

    struct list notices;
    void *notice_object; /* whose notice runs */
    pthread_t notice_thread;
};

/* Nobody uses it any more, and its thread has ended or is the caller. */
void lib_connection_finish(struct lease_connection *connection);

void lib_lock(struct lease_connection *connection);
void lib_unlock(struct lease_connection *connection);

/* ---- lib_process.c ---- */

/* It belongs to this process. */
void lib_process_own(struct lease_connection *connection);
/* This process is a child of the one that opened it. There lib_lock(), lib_unlock() and lib_step()
 * do nothing: the mutex may be held by a thread that does not exist, and its memory may be in the
 * middle of a change. */
bool lib_is_inherited(const struct lease_connection *connection);
/* LEASE_INVALID if it is. */
enum lease_status lib_check_process(const struct lease_connection *connection);
/* Closes the descriptors of one that is inherited. */
void lib_process_abandon(struct lease_connection *connection);

/* ---- lib_calls.c; all with the mutex held ---- */

/* A call with its first message. It is sent by the next lib_step(). deadline_ms 0: none. */
struct lib_call *lib_call_start(struct lease_connection *connection,
                                const struct lib_method *method, struct bytes message,
                                void *context, uint64_t deadline_ms);
/* Of a stream: one more message. */
void lib_call_send(struct lib_call *call, struct bytes message);
/* Gives it up: nothing is heard of it any more. Accepts NULL. */
void lib_call_cancel(struct lib_call *call);
/* Opens what waits, if it may. */
void lib_calls_open(struct lease_connection *connection, uint64_t now_ms);
/* Messages and ends that came. */
void lib_calls_take(struct lease_connection *connection);
/* The farewells of this session have a deadline from now on: what it had ends with it. */
void lib_calls_session_over(struct lease_connection *connection, int64_t session_id);
/* Deadlines that have passed. */
void lib_calls_expire(struct lease_connection *connection, uint64_t now_ms);
/* The socket is gone. */
void lib_calls_lost(struct lease_connection *connection, const char *reason);
/* Ends those that wait: no connection will be made for this reason. */
void lib_calls_refuse(struct lease_connection *connection, enum lib_code code, const char *reason);
uint64_t lib_calls_wake_ms(const struct lease_connection *connection);

/* ---- lib_ready.c ---- */

/* Connects if somebody wants it, and takes it further. */
void lib_ready_step(struct lease_connection *connection, uint64_t now_ms);
/* Before the end of the connection: all calls end, the socket goes, and none is made again. */
void lib_ready_abandon(struct lease_connection *connection);
/* Gives the socket up and goes to the next endpoint. */
void lib_ready_drop(struct lease_connection *connection, const char *reason);
/* The token is not taken any more: another one is asked for. False: there is no password. */
bool lib_ready_authenticate_again(struct lease_connection *connection);
uint64_t lib_ready_wake_ms(const struct lease_connection *connection);

/* ---- lib_loop.c ---- */

int lib_loop_init(struct lease_connection *connection);
void lib_loop_clear(struct lease_connection *connection);
void *lib_loop_run(void *connection);
/* Does all that can be done now, and sets the timer. Every function that started something calls
 * it. */
void lib_step(struct lease_connection *connection);
/* Waits for events at most so long (-1: no limit), and handles them. */
void lib_loop_process(struct lease_connection *connection, int timeout_ms);
/* Whoever waits for events looks again. */
void lib_wake(struct lease_connection *connection);
/* Somebody may wait for what has just changed. */
void lib_changed(struct lease_connection *connection);
/* Waits until *done, or until a moment (0: no limit). */
void lib_wait_until(struct lease_connection *connection, const bool *done, uint64_t limit_ms);
/* LEASE_INVALID in a callback: whoever waits there waits for itself. As lib_check_process(). */
enum lease_status lib_may_wait(struct lease_connection *connection);

/* ---- lib_notice.c ---- */

/* A callback of a user's that is to be run. */
struct lib_notice {
    struct list link;
    void *object; /* whose it is */
    void (*take)(
        struct lib_notice *notice); /* with the mutex, before it is run or dropped; or NULL */
    void (*run)(struct lib_notice *notice);   /* without the mutex */
    void (*clear)(struct lib_notice *notice); /* of its own fields; NULL: nothing */
};

void lib_notice_add(struct lease_connection *connection, struct lib_notice *notice, void *object);
/* Takes it out, unrun. */
void lib_notice_drop(struct lib_notice *notice);
void lib_notice_run_all(struct lease_connection *connection);
/* Forgets what was not run of this object, and waits until one that runs has ended, unless it is
 * this thread that runs it. */
void lib_notice_forget(struct lease_connection *connection, const void *object);

/* ---- a request and its one answer ---- */

struct lib_request {
    const char *path;
    bool is_repeatable;
    struct buffer message; /* cleared by lib_ask() */
};

/* Sends and waits. Locks and unlocks. LEASE_OK: out_answer is the message, to be cleared; otherwise
 * lease_error() says why. `request` is used up. */
enum lease_status lib_ask(struct lease_connection *connection, struct lib_request *request,
                          struct buffer *out_answer);
/* The same for an answer that says nothing but yes. */
enum lease_status lib_tell(struct lease_connection *connection, struct lib_request *request);
/* Waits until it is known which protocol the server speaks. Locks and unlocks. */
enum lease_status lib_know_protocol(struct lease_connection *connection,
                                    enum lease_protocol *out_protocol);

struct lib_answer {
    enum lib_code code;
    const char *text;     /* a sentence, unless the code is OK */
    struct bytes message; /* empty unless the code is OK */
    uint64_t sent_ms;     /* when the request left; 0: it did not */
};

/* The same without waiting, with the mutex held: `done` is called with it held, and the answer is
 * valid during the call. */
typedef void lib_answered(void *context, const struct lib_answer *answer);
struct lib_asking;
struct lib_asking *lib_ask_start(struct lease_connection *connection, struct lib_request *request,
                                 lib_answered *done, void *context);
/* The same with a deadline of its own. */
struct lib_asking *lib_ask_start_by(struct lease_connection *connection,
                                    struct lib_request *request, uint64_t deadline_ms,
                                    lib_answered *done, void *context);
/* A farewell: gives back something of a session, and nobody waits for the answer. It is repeated
 * for as long as the session lives (0: for the time of a request), and should leave before the
 * connection is closed. Otherwise what a session gave back while no server could be reached would
 * be held until its end. */
void lib_farewell(struct lease_connection *connection, struct lib_request *request,
                  int64_t session_id);
/* When a farewell of this session is given up; 0: not now. */
uint64_t lib_farewell_deadline_ms(const struct lease_connection *connection, int64_t session_id);
/* Nothing is heard of it any more. Accepts NULL. */
void lib_asking_cancel(struct lib_asking *asking);

#endif
