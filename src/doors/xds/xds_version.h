/*
 * Versions of resources: the revision of the service and, where the client has named its zone,
 * that zone, on which the priorities of endpoints depend. Pure.
 */
#ifndef LEASED_DOORS_XDS_XDS_VERSION_H
#define LEASED_DOORS_XDS_XDS_VERSION_H

#include "base/bytes.h"

#include <stddef.h>
#include <stdint.h>

enum { XDS_ZONE_SIZE_MAX = 255, XDS_VERSION_SIZE = 24 + XDS_ZONE_SIZE_MAX };

/* "77@zone", or "77" without a zone, which is at most XDS_ZONE_SIZE_MAX bytes long. Returns its
 * size; there is no NUL. */
size_t xds_version_write(char out_text[XDS_VERSION_SIZE], int64_t revision, struct bytes zone);
/* The revision that such a text stands for; 0: it is none of ours, or of another zone. */
int64_t xds_version_read(struct bytes text, struct bytes zone);

#endif
