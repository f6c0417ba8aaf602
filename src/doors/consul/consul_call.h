/*
 * One request of the Consul API, from its arrival to its answer. It lives until the exchange is
 * over and the service has nothing of it left.
 *
 * A read is a query: ranges of keys and a function that shows them. With `index` it is a blocking
 * query: it waits until something of its own ranges has changed since that index, and no change of
 * anything else wakes it.
 */
#ifndef LEASED_DOORS_CONSUL_CONSUL_CALL_H
#define LEASED_DOORS_CONSUL_CONSUL_CALL_H

#include "base/arena.h"
#include "base/buffer.h"
#include "core/service.h"
#include "doors/consul/consul_door_internal.h"
#include "doors/consul/consul_json.h"
#include "net/http.h"

enum { CONSUL_RANGES_MAX = 3 };

struct consul_call;
struct consul_filter;
struct consul_list;
struct consul_search;

/* What a read shows. */
struct consul_query {
    /* Writes the answer into call->body: status, own_index, bound_index. */
    void (*show)(struct consul_call *call, const struct key_store *keys);
    /* Instead of show(), of what may be long (consul_list.h). */
    const struct consul_list *list;
    /* Whether a change within the ranges is one of what is shown; NULL: every one. */
    bool (*concerns)(struct consul_call *call, const struct record *record);
};

/* How far a list has been written. */
struct consul_position {
    bool is_begun;
    struct buffer service; /* and id of the last instance, or the last key alone */
    struct buffer id;
    size_t n_looked_at; /* in this part */
    unsigned pass;      /* see consul_near.h */
};

/* Of ?near=, see consul_near.h. */
struct consul_near {
    bool is_asked;
    struct bytes node;    /* empty: near the client itself */
    struct bytes address; /* of the client */
    bool has_zone;        /* it is known */
    struct bytes zone;    /* empty: in none */
};

struct consul_watch {
    struct service_watch watch;
    struct consul_call *call;
};

struct consul_call {
    struct consul_door *door;
    struct http_exchange *exchange; /* NULL: it is over */
    struct arena arena;
    struct arena scratch; /* of one part of a list */
    struct buffer body;   /* of the answer */
    struct consul_json json;
    unsigned n_pending; /* with the service */

    /* Of a change. */
    struct service_request request;
    void (*done)(struct consul_call *call, const struct outcome *outcome);
    struct service_renewal renewal;
    void (*renewed)(struct consul_call *call, enum status status);

    /* Of a read. */
    struct service_read read;
    const struct consul_query *query;
    size_t n_ranges;
    struct key_range ranges[CONSUL_RANGES_MAX];
    bool is_stale;
    uint64_t index;       /* what the client has seen; 0: it does not wait */
    uint64_t wait_ms;     /* how long it waits */
    uint64_t deadline_ms; /* 0: it has not begun to wait */
    bool is_woken;
    bool is_jittered;
    struct consul_watch watches[CONSUL_RANGES_MAX];
    /* Of what was shown. */
    unsigned status; /* 0: show() has answered, or will */
    const char *content_type;
    int64_t own_index;   /* the greatest index of what is there */
    int64_t bound_index; /* at least that of all that was deleted */
    bool is_timed_out;
    /* Of what has an index that is a name and no revision: another one is news. */
    bool has_named_index;
    uint64_t named_index;
    bool is_cached; /* answered of this member's own copy, as ?cached asks for */

    const struct consul_filter *filter; /* NULL: none */
    struct bytes filter_text;
    struct arena filter_arena;
    bool has_unknown_selector;
    struct bytes node_address; /* see consul_node_address(); empty: not asked for yet */
    struct bytes node_id;      /* see consul_node_own_id() */

    /* Of a list. */
    struct consul_position position;
    struct consul_near near;
    bool may_wait; /* unless there is news */
    bool is_deferred;
    uint64_t deferred_since_ms;
    struct service_scan scan;
    bool is_scanning;
    bool is_started;  /* the head of the answer was sent */
    bool is_complete; /* the last part was written */
    bool is_no_news;
    bool is_found;         /* index() has seen something: of keys */
    bool is_busy;          /* it needs a worker to look for something: see consul_search.h */
    int64_t wait_revision; /* from which a list without news waits */
    /* The parameters, when a worker needs them: the exchange may end meanwhile. */
    bool is_detached;
    struct http_field *fields; /* of the path, then of the query */
    size_t n_fields;
    size_t n_path_fields;

    /* What was looked for. */
    struct consul_search *searches;
    size_t n_looked_at;              /* records, on the loop */
    const struct consul_query *look; /* what looks */

    json_t *given; /* the body, for as long as the call; NULL: none */
    /* The handler's own. */
    void *data;
};

/* For the routes: makes a call of an exchange and hands it on. */
void consul_call_on_body(struct http_exchange *exchange, struct bytes body, bool is_last);
void consul_call_on_writable(struct http_exchange *exchange);
void consul_call_on_close(struct http_exchange *exchange);
void consul_call_on_input_end(struct http_exchange *exchange);
void consul_call_on_refused(struct http_exchange *exchange);

/* --- The request. --- */

/* A parameter of the path; empty when there is none. */
struct bytes consul_call_path(const struct consul_call *call, const char *name);
bool consul_call_has(const struct consul_call *call, const char *name);
struct bytes consul_call_text(const struct consul_call *call, const char *name);
/* All of the query, one a call; `*position` starts at 0. False: there is no more. */
bool consul_call_next_query(const struct consul_call *call, size_t *position,
                            struct http_field *out_field);
/* A copy that lives as long as the call. */
struct bytes consul_call_keep(struct consul_call *call, struct bytes bytes);
/* A number of the query: `out_value` is left alone when there is none. False: it is none, and that
 * was answered. */
bool consul_call_number(struct consul_call *call, const char *name, uint64_t *out_value);

/* The body into call->given. False: it is no JSON, which was answered. */
bool consul_call_read_body(struct consul_call *call, struct bytes body);

/* --- The answer. --- */

/* call->body as JSON. */
void consul_call_reply(struct consul_call *call, unsigned status);
void consul_call_fail(struct consul_call *call, unsigned status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* In Consul's words. */
void consul_call_fail_status(struct consul_call *call, enum status status);
void consul_call_reply_bool(struct consul_call *call, bool is_true);
/* An answer without a body. */
void consul_call_reply_empty(struct consul_call *call, unsigned status);

/* --- The service. --- */

/* A rule; done() is not called when the client is gone. The request is copied. */
void consul_call_submit(struct consul_call *call, uint32_t rule, const struct buffer *request,
                        void (*done)(struct consul_call *call, const struct outcome *outcome));
/* Reads the parameters of reads (index, wait, stale, consistent, dc), then reads, waits and shows.
 * The ranges are set before. */
void consul_call_query(struct consul_call *call, const struct consul_query *query);
/* A read that does not wait: for what is looked up before a change. */
void consul_call_look(struct consul_call *call, const struct consul_query *query);
void consul_call_renew(struct consul_call *call, int64_t lease_id, struct key_space_id owner,
                       void (*renewed)(struct consul_call *call, enum status status));
void consul_call_add_range(struct consul_call *call, struct key_range range);
const struct key_store *consul_call_keys(const struct consul_call *call);
/* False: the datacenter that is asked for is another one, which was answered. */
bool consul_call_check_dc(struct consul_call *call);

/* A random UUID, in arena memory. */
struct bytes consul_call_uuid(struct consul_call *call);

#endif
