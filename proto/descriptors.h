/*
 * The wire descriptions of this folder as descriptor.proto encodes them, made when leased is built
 * (embed_descriptors.py). Server reflection hands them out.
 */
#ifndef LEASED_PROTO_DESCRIPTORS_H
#define LEASED_PROTO_DESCRIPTORS_H

#include <stddef.h>

struct descriptor_file {
    const char *name; /* "etcd.proto" */
    const unsigned char *bytes;
    size_t size;
};
extern const struct descriptor_file descriptor_files[];
extern const size_t descriptor_n_files;

/* Full names; both end with NULL. */
extern const char *const descriptor_services[]; /* "etcdserverpb.KV" */
extern const char *const descriptor_names[];    /* methods, messages, enums */

#endif
