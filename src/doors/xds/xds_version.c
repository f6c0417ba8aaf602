#include "doors/xds/xds_version.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

size_t xds_version_write(char out_text[XDS_VERSION_SIZE], int64_t revision, struct bytes zone) {
    int n = snprintf(out_text, XDS_VERSION_SIZE, "%" PRId64, revision);
    if (zone.size == 0) {
        return (size_t)n;
    }
    out_text[n] = '@';
    memcpy(out_text + n + 1, zone.data, zone.size);
    return (size_t)n + 1 + zone.size;
}

int64_t xds_version_read(struct bytes text, struct bytes zone) {
    char digits[24];
    size_t suffix = zone.size > 0 ? 1 + zone.size : 0;
    if (text.size <= suffix || text.size - suffix >= sizeof digits) {
        return 0;
    }
    size_t n = text.size - suffix;
    memcpy(digits, text.data, n);
    digits[n] = '\0';
    char expected[XDS_VERSION_SIZE];
    long long revision = strtoll(digits, NULL, 10);
    size_t size = revision > 0 ? xds_version_write(expected, revision, zone) : 0;
    return bytes_equal(text, bytes_of(expected, size)) ? revision : 0;
}
