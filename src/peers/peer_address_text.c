/* The half of peer_address.h that deals with texts alone. */
#include "peers/peer_address.h"

#include <string.h>

bool peer_address_of_url(const char *url, char out_address[PEER_ADDRESS_SIZE_MAX + 1]) {
    const char *start = strstr(url, "://");
    bool is_unix = strncmp(url, "unix://", 7) == 0 || strncmp(url, "unixs://", 8) == 0;
    start = start == NULL ? url : start + 3;
    size_t size = is_unix ? strlen(start) : strcspn(start, "/");
    size_t prefix_size = is_unix ? strlen("unix://") : 0;
    if (size == 0 || size > PEER_ADDRESS_SIZE_MAX - prefix_size) {
        return false;
    }
    memcpy(out_address, "unix://", prefix_size);
    memcpy(out_address + prefix_size, start, size);
    out_address[prefix_size + size] = '\0';
    return true;
}

const char *peer_address_path(const char *text) {
    static const char prefix[] = "unix://";
    return strncmp(text, prefix, sizeof prefix - 1) == 0 ? text + sizeof prefix - 1 : NULL;
}
