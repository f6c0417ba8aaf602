/*
 * A bystander: one client in its own thread, with its own connection, that puts one small value
 * after the other and times each, so that what the main thread does cannot colour its figures.
 */
#ifndef LEASED_LOAD_PUT_PROBE_H
#define LEASED_LOAD_PUT_PROBE_H

#include "tools/load/load.h"

struct put_probe;

/* Starts the thread; returns when it is connected. `load` must outlive it. */
struct put_probe *put_probe_start(const struct load *load, size_t value_size);
/* From now on until the next call its times count as this phase. */
enum put_probe_phase { PUT_PROBE_BEFORE, PUT_PROBE_DURING, PUT_PROBE_PHASES };
void put_probe_enter(struct put_probe *probe, enum put_probe_phase phase);
/* Ends the thread; the histograms can be read afterwards, until destroy. A put still unanswered at
 * this moment counts with the time it has waited. */
void put_probe_stop(struct put_probe *probe);
const struct histogram *put_probe_times_us(const struct put_probe *probe,
                                           enum put_probe_phase phase);
void put_probe_destroy(struct put_probe *probe);

#endif
