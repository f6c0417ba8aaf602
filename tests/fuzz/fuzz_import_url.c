/* URLs of `lease import`. */
#include "cli/import_url.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct import_url url;
    const char *reason = NULL;
    char *text = malloc(size + 1);
    if (text == NULL) {
        abort();
    }
    memcpy(text, data, size);
    text[size] = '\0';
    if (import_url_parse(text, &url, &reason) == STATUS_OK) {
        assert(url.path[0] == '/' && url.database < IMPORT_DATABASES_MAX && url.place.port > 0);
    } else {
        assert(reason != NULL);
    }
    for (int protocol = IMPORT_REDIS; protocol <= IMPORT_ZOOKEEPER; protocol++) {
        (void)import_url_parse_as((enum import_protocol)protocol, text, &url, &reason);
    }
    free(text);
    return 0;
}
