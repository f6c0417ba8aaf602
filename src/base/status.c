#include "base/status.h"

const char *status_text(enum status status) {
    static const char *const texts[] = {
#define STATUS_TEXT(name, text) [STATUS_##name] = text,
        STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    };
    return (unsigned)status < STATUS_COUNT ? texts[status] : "unknown status";
}
