/*
 * State as messages of the wire, appended to an answer.
 */
#ifndef LEASED_DOORS_REGISTRY_REGISTRY_API_SHOW_H
#define LEASED_DOORS_REGISTRY_REGISTRY_API_SHOW_H

#include "base/buffer.h"
#include "registry/registry_view.h"

void registry_api_show_instance(struct buffer *out, uint32_t field,
                                const struct registry_entry *entry, bool with_checks);
/* ServiceInfo, also of a service that is not there: a name and a revision. */
void registry_api_show_service(struct buffer *out, uint32_t field, const struct key_store *keys,
                               struct arena *arena, struct bytes name);
void registry_api_show_event(struct buffer *out, uint32_t field,
                             const struct registry_event *event);

#endif
