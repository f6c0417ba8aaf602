/*
 * Plain TCP connections for the protocols of other doors: requests are written as they are, and
 * each reply is told to whoever asked, in the order of the requests. What fails ends the program.
 */
#ifndef LEASED_BENCH_BENCH_WIRE_H
#define LEASED_BENCH_BENCH_WIRE_H

#include "bench/bench.h"

struct bench_wire;

/* The size of the first whole reply; 0: more bytes are needed. Malformed ones end the program. */
typedef size_t bench_wire_measure(struct bytes input);
typedef void bench_wire_on_reply(void *context, struct bytes reply);

/* Connected; the i-th goes to the endpoints round robin. */
struct bench_wire *bench_wire_connect(struct bench *bench, size_t i, bench_wire_measure *measure);
void bench_wire_ask(struct bench_wire *wire, struct bytes request, bench_wire_on_reply *on_reply,
                    void *context);
/* Until all that was asked is answered. */
void bench_wire_wait(struct bench_wire *wire);
/* Asks for the last time, and destroys it; the server may close the connection. */
void bench_wire_end(struct bench_wire *wire, struct bytes request, bench_wire_on_reply *on_reply);
/* Nothing is asked any more. */
void bench_wire_destroy(struct bench_wire *wire);

#endif
