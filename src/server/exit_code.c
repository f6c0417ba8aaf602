#include "server/exit_code.h"

enum exit_code exit_code_of_status(enum status status) {
    switch (status) {
    case STATUS_INVALID:
        return EXIT_CODE_USAGE;
    case STATUS_MEMBER_REMOVED:
        return EXIT_CODE_REMOVED;
    case STATUS_NO_SPACE:
        return EXIT_CODE_DISK_FULL;
    case STATUS_IO:
        return EXIT_CODE_DISK_FAILED;
    case STATUS_CORRUPT:
    case STATUS_UNSUPPORTED:
        return EXIT_CODE_DATA_CORRUPT;
    case STATUS_DATA_DIR_IN_USE:
        return EXIT_CODE_DATA_DIR_IN_USE;
    case STATUS_MEMBER_NOT_ADDED:
        return EXIT_CODE_NOT_ADDED;
    case STATUS_DATA_DIR_REPLACED:
        return EXIT_CODE_DATA_DIR_REPLACED;
    default:
        return EXIT_CODE_FAILED;
    }
}
