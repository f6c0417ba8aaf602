/*
 * What the files of this door share: the door's own memory, one request on its way through the
 * service, and answers in HTTP.
 */
#ifndef LEASED_DOORS_EUREKA_EUREKA_INTERNAL_H
#define LEASED_DOORS_EUREKA_EUREKA_INTERNAL_H

#include "base/arena.h"
#include "doors/door.h"
#include "doors/eureka/eureka_writer.h"
#include "net/http.h"
#include "registry/registry_view.h"

/* --- The door. --- */

/* The revision at some moments of the last minutes: the delta is what has changed since one of
 * them. */
enum { EUREKA_MOMENTS_MAX = 32 };
#define EUREKA_DELTA_MS (UINT64_C(3) * 60 * 1000)
struct eureka_moments {
    struct {
        uint64_t at_ms;
        int64_t revision;
    } items[EUREKA_MOMENTS_MAX]; /* in turn */
    size_t n;                    /* ever noted */
};
void eureka_moments_note(struct eureka_moments *moments, uint64_t now_ms, int64_t revision);
/* The revision EUREKA_DELTA_MS ago, or an earlier one that is known; else the earliest. */
int64_t eureka_moments_since(const struct eureka_moments *moments, uint64_t now_ms);

enum eureka_counter {
    EUREKA_COUNT_REGISTER,
    EUREKA_COUNT_RENEW,
    EUREKA_COUNT_RENEW_NOT_FOUND,
    EUREKA_COUNT_CANCEL,
    EUREKA_COUNT_STATUS,
    EUREKA_COUNT_METADATA,
    EUREKA_COUNT_LIST,
    EUREKA_COUNT_DELTA,
    EUREKA_COUNT_INSTANCE,
    EUREKA_COUNTERS
};

struct eureka_door {
    const struct door_environment *environment;
    struct service *service;
    struct eureka_moments moments;
    uint64_t counters[EUREKA_COUNTERS];
};
const struct key_store *eureka_door_keys(const struct eureka_door *door);
/* Of a request that reads or changes: notes the moment. */
void eureka_door_note(struct eureka_door *door);

/* --- Answers. --- */

enum eureka_format eureka_http_format(const struct http_exchange *exchange);
const char *eureka_http_type(enum eureka_format format);
bool eureka_http_accepts_gzip(const struct http_exchange *exchange);
/* A document, whole; compressed if the client takes that. */
void eureka_http_document(struct http_exchange *exchange, enum eureka_format format,
                          struct bytes document);
/* An error with its reason, for people. */
void eureka_http_error(struct http_exchange *exchange, unsigned status, const char *text);
/* As the outcome of a request to the service says. */
void eureka_http_status(struct http_exchange *exchange, enum status status);
/* A peer of Eureka's own replication: refused, and answered. */
bool eureka_http_is_replication(struct http_exchange *exchange);
/* A parameter of the route; asserts that it has one. */
struct bytes eureka_http_parameter(const struct http_exchange *exchange, const char *name);

/* --- Requests. --- */

/* Belongs to the exchange, and while it waits to the service as well: whoever is the last to need
 * it frees it. */
struct eureka_request {
    struct eureka_door *door;
    struct http_exchange *exchange; /* NULL: the client is gone */
    struct caller caller;
    struct arena arena;
    struct bytes service_name; /* of the registry: see eureka_request_find() */
    struct bytes id;
    bool is_waiting; /* for the service */
    union {
        struct service_request submit;
        struct service_read read;
        struct service_renewal renewal;
    } call;
    /* What follows, once: with the status of what was waited for. */
    void (*next)(struct eureka_request *request, enum status status);
    /* What the steps of a request need to know of each other. */
    int64_t dirty_ms;
    bool is_retried;
};

/* For the routes' on_close. */
void eureka_request_closed(struct http_exchange *exchange);
/* With the names that the route has (app, id). */
struct eureka_request *eureka_request_create(struct http_exchange *exchange);
/* Each of these is followed by next(), at once or later. */
void eureka_request_submit(struct eureka_request *request, uint32_t rule, const struct buffer *body,
                           void (*next)(struct eureka_request *request, enum status status));
/* With a range: for the caller, who must be allowed to read it. NULL: for the server; what is
 * looked at decides what is done, and that checks the caller. */
void eureka_request_read(struct eureka_request *request, const struct key_range *range,
                         void (*next)(struct eureka_request *request, enum status status));
void eureka_request_renew(struct eureka_request *request, int64_t lease_id,
                          void (*next)(struct eureka_request *request, enum status status));
/* The instance that the request names, under whichever spelling of its application; the request
 * has that spelling from then on. In its arena. */
bool eureka_request_find(struct eureka_request *request, struct registry_entry *out_entry);
/* The ends: they answer, if the client is still there, and give the request back. */
void eureka_request_finish(struct eureka_request *request, unsigned http_status);
/* With a document; the client is there. */
void eureka_request_answer(struct eureka_request *request, enum eureka_format format,
                           struct bytes document);
void eureka_request_fail(struct eureka_request *request, unsigned http_status, const char *text);
void eureka_request_fail_status(struct eureka_request *request, enum status status);

/* --- The routes' functions. --- */

/* eureka_register.c */
void eureka_on_register(struct http_exchange *exchange, struct bytes body, bool is_last);
/* eureka_renew.c */
void eureka_on_renew(struct http_exchange *exchange);
/* eureka_change.c */
void eureka_on_cancel(struct http_exchange *exchange);
void eureka_on_status(struct http_exchange *exchange);
void eureka_on_delete_status(struct http_exchange *exchange);
void eureka_on_metadata(struct http_exchange *exchange);
/* eureka_get.c */
void eureka_on_instance(struct http_exchange *exchange);
void eureka_on_instance_by_id(struct http_exchange *exchange);
/* eureka_listing.c */
void eureka_on_all(struct http_exchange *exchange);
void eureka_on_delta(struct http_exchange *exchange);
void eureka_on_application(struct http_exchange *exchange);
void eureka_on_vip(struct http_exchange *exchange);
void eureka_on_secure_vip(struct http_exchange *exchange);
void eureka_listing_writable(struct http_exchange *exchange);
void eureka_listing_closed(struct http_exchange *exchange);
/* eureka_http.c */
void eureka_on_replication(struct http_exchange *exchange);

/* eureka_requests.c: every route, with the right that it needs. */
extern const struct door_request eureka_requests[];

#endif
