/* Where a peer is said to listen; another member may have been told by anybody. */
#include "replication/peer_address.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct peer_address address;
    struct sockaddr_storage found;
    char *text = malloc(size + 1);
    assert(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    if (peer_address_split(text, &address) == 0) {
        assert(strlen(address.host) >= 1);
        assert(strlen(address.host) <= PEER_ADDRESS_SIZE_MAX);
        assert(strtoul(address.port, NULL, 10) <= UINT16_MAX);
        (void)peer_address_in_figures(&address, &found);
    }
    free(text);
    return 0;
}
