#include "lease/lib_error.h"

#include "build_info.h"
#include "lease/lib_call.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char sentence[LIB_TEXT_SIZE_MAX];

enum lease_status lib_error(enum lease_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return status;
}

const char *lease_error(void) {
    return sentence;
}

const char *lease_version(void) {
    return LEASED_VERSION;
}

const char *lease_status_text(enum lease_status status) {
    switch (status) {
#define STATUS_CASE(name, number, text)                                                            \
    case LEASE_##name:                                                                             \
        return text;
        LEASE_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    default:
        return "unknown status";
    }
}

const char *lease_end_reason_text(enum lease_end_reason reason) {
    static const char *const texts[] = {
        [LEASE_END_NONE] = "unknown",
        [LEASE_END_RELEASED] = "released",
        [LEASE_END_EXPIRED] = "expired",
        [LEASE_END_REVOKED] = "revoked",
        [LEASE_END_PARENT] = "its parent ended",
        [LEASE_END_TRANSFERRED] = "transferred",
        [LEASE_END_HOLD_LIMIT] = "hold limit reached",
        [LEASE_END_SESSION_ENDED] = "its session ended",
        [LEASE_END_LEFT_QUEUE] = "left the queue",
    };
    size_t index = (size_t)reason;
    return index < sizeof texts / sizeof texts[0] ? texts[index] : texts[LEASE_END_NONE];
}
