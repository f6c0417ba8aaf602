/*
 * Consul's ?filter= expressions: ==, !=, in, not in, contains, not contains, is empty, is not
 * empty, with and, or, not and parentheses, over the members of what is shown. An object is written
 * first and taken back when the expression is false of it.
 */
#ifndef LEASED_DOORS_CONSUL_CONSUL_FILTER_H
#define LEASED_DOORS_CONSUL_CONSUL_FILTER_H

#include "doors/consul/consul_call.h"

struct consul_filter;

/* In arena memory; NULL: malformed, and `out_why` says why. */
const struct consul_filter *consul_filter_parse(struct bytes text, struct arena *arena,
                                                const char **out_why);
/* `out_is_unknown` is set when a selector names nothing that such an object has. */
bool consul_filter_matches(const struct consul_filter *filter, const json_t *object,
                           bool *out_is_unknown);

/* Reads ?filter= into call->filter. False: it was answered. */
bool consul_filter_read(struct consul_call *call);
/* An expression takes much more memory than its text: a call that waits does without. */
void consul_filter_forget(struct consul_call *call);
void consul_filter_remember(struct consul_call *call);

/* Where an object of the answer begins; with its key when it is a member of an object. */
struct consul_mark {
    size_t size;
    size_t object; /* where the object itself begins */
    bool needs_comma;
};
struct consul_mark consul_filter_begin(struct consul_call *call, const struct bytes *key);
/* Takes what was written since back unless the filter keeps it. */
void consul_filter_end(struct consul_call *call, const struct consul_mark *mark);

#endif
