/*
 * Names of resources: that of the service, or `SERVICE;tag=TAG`, with `;tag=TAG` for more, for its
 * instances that have all of these tags; `SERVICE?tag=TAG&tag=TAG` is the same. Cluster, endpoints,
 * listener and route of a service have the same name.
 */
#ifndef LEASED_DOORS_XDS_XDS_NAME_H
#define LEASED_DOORS_XDS_XDS_NAME_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>

enum { XDS_NAME_TAGS_MAX = 4, XDS_NAME_SIZE_MAX = 1024 };

struct xds_name {
    struct bytes service;
    size_t n_tags;
    struct bytes tags[XDS_NAME_TAGS_MAX];
};

/* Views into the text. False: nothing can have this name. Names of the form `xdstp:` are those of a
 * federation, which is not offered. */
bool xds_name_parse(struct bytes text, struct xds_name *out_name);
/* "*": all there are. */
bool xds_name_is_wildcard(struct bytes text);

#endif
