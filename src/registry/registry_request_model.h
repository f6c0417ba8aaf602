/*
 * Requests of the registry's rules out of untrusted bytes. Each is read to the last byte: false is
 * malformed. What a value may be is checked by the rules. Arrays are arena memory, texts point into
 * the request.
 */
#ifndef LEASED_REGISTRY_REGISTRY_REQUEST_MODEL_H
#define LEASED_REGISTRY_REGISTRY_REQUEST_MODEL_H

#include "registry/registry_rules.h"

bool registry_register_decode(struct bytes request, struct arena *arena,
                              struct registry_register *out_request);
void registry_registered_encode(struct buffer *out, const struct registry_registered *registered);
bool registry_deregister_decode(struct bytes request, struct registry_deregister *out_request);
bool registry_set_state_decode(struct bytes request, struct registry_set_state *out_request);
bool registry_set_metadata_decode(struct bytes request, struct arena *arena,
                                  struct registry_set_metadata *out_request);
bool registry_put_check_decode(struct bytes request, struct arena *arena,
                               struct registry_put_check *out_request);
bool registry_delete_check_decode(struct bytes request, struct registry_delete_check *out_request);
bool registry_reports_decode(struct bytes request, struct arena *arena,
                             const struct registry_report **out_reports, size_t *out_n);
void registry_reported_encode(struct buffer *out, const struct registry_reported *reported);
bool registry_settings_decode(struct bytes request, struct registry_settings *out_request);
bool registry_runner_decode(struct bytes request, struct registry_runner *out_request);

#endif
