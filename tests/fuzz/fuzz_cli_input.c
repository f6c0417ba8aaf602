/* What a person types as a time, an id or an endpoint: anything may come, and what was accepted
 * survives being written and read again. */
#include "base/duration.h"
#include "cli/lease_id.h"
#include "client/endpoint.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition) {
    if (!condition) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    must(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = 0;

    int64_t ms;
    if (duration_parse(text, DURATION_BARE_SECONDS, &ms) == STATUS_OK) {
        char room[DURATION_TEXT_SIZE_MAX];
        int64_t again;
        must(ms >= 0);
        must(ms <= DURATION_MS_MAX);
        must(duration_parse(duration_format(ms, room), DURATION_BARE_REFUSED, &again) == STATUS_OK);
        must(again == ms);
    }
    int64_t id;
    if (lease_id_parse(text, &id) == STATUS_OK) {
        char room[LEASE_ID_TEXT_SIZE_MAX];
        int64_t again;
        must(lease_id_parse(lease_id_format(id, room), &again) == STATUS_OK);
        must(again == id);
    }
    struct endpoint_list list;
    if (endpoint_list_parse(text, &list) == STATUS_OK) {
        must(list.n_items >= 1);
        must(list.n_items <= ENDPOINTS_MAX);
        for (size_t i = 0; i < list.n_items; i++) {
            must(list.items[i].port != 0);
            must(list.items[i].host[0] != 0);
        }
    }
    free(text);
    return 0;
}
