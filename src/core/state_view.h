/*
 * The replicated state for readers: doors, routes, metrics. What it gives
 * out is borrowed until the iteration of the loop ends.
 */
#ifndef LEASED_CORE_STATE_VIEW_H
#define LEASED_CORE_STATE_VIEW_H

#include "core/state_machine.h"

struct state_view;

const struct key_store *state_view_keys(const struct state_view *view);
const struct lease_table *state_view_leases(const struct state_view *view);
const struct auth *state_view_auth(const struct state_view *view);
/* To be counted only: watches are made by service_watch(). */
const struct watch_hub *state_view_watches(const struct state_view *view);
/* Returns how many there are. */
size_t state_view_alarms(const struct state_view *view,
                         struct alarm_entry out_alarms[STATE_MACHINE_ALARMS_MAX]);

#endif
