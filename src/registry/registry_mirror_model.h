/* An instance as JSON, for etcd's clients to read. */
#ifndef LEASED_REGISTRY_REGISTRY_MIRROR_MODEL_H
#define LEASED_REGISTRY_REGISTRY_MIRROR_MODEL_H

#include "registry/registry_model.h"

/* With its service, id and token. */
void registry_mirror_write(struct buffer *out, const struct registry_instance *instance,
                           enum registry_health health);
/* The names of states and healths, as all that people read has them; never NULL. */
const char *registry_state_text(enum registry_state state);
const char *registry_health_text(enum registry_health health);

#endif
