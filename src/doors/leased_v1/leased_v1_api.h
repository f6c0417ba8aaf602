/*
 * What a door of leased.v1 has of it: the service, the words of its refusals, and the answer that
 * is being made. Every answer begins with a header: cluster, member, revision, term.
 */
#ifndef LEASED_DOORS_LEASED_V1_LEASED_V1_API_H
#define LEASED_DOORS_LEASED_V1_LEASED_V1_API_H

#include "base/buffer.h"
#include "core/service.h"
#include "doors/leased_v1/leased_v1_error.h"

struct leased_v1_api {
    struct service *service;
    const struct leased_v1_error *(*error_of)(enum status status);
    /* Counts the outcome of a rule, also when the client went away first. NULL: nobody does. */
    void (*count)(struct leased_v1_api *api, enum status status);
    struct buffer scratch; /* of the answer being made */
    struct {
        uint64_t cluster_id;
        uint64_t member_id;
        uint64_t term;
        uint64_t asked_ms; /* when they were asked for */
        bool is_known;
    } identity;
};

void leased_v1_api_init(struct leased_v1_api *api, struct service *service,
                        const struct leased_v1_error *(*error_of)(enum status status));
void leased_v1_api_clear(struct leased_v1_api *api);

/* An empty buffer with the header of an answer in it, of the newest revision or of a given one.
 * It belongs to the api: one answer at a time. */
struct buffer *leased_v1_answer_begin(struct leased_v1_api *api);
struct buffer *leased_v1_answer_begin_at(struct leased_v1_api *api, int64_t revision);
/* Sends it; a stream goes on. */
void leased_v1_answer_send(struct grpc_call *call, const struct buffer *answer);
/* Sends it and ends the call. */
void leased_v1_answer_finish(struct grpc_call *call, const struct buffer *answer);

/* The header alone, for those that write in place (base/pb_writer.h). */
struct leased_v1_header {
    uint64_t cluster_id;
    uint64_t member_id;
    int64_t revision;
    uint64_t term;
};
struct leased_v1_header leased_v1_header_now(struct leased_v1_api *api);

#endif
