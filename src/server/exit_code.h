/*
 * The exit codes of `leased`, all of them. Code 1 is what a restart may cure; every code above it
 * needs a person, and packaging/leased.service does not restart after it (a test compares the two).
 */
#ifndef LEASED_SERVER_EXIT_CODE_H
#define LEASED_SERVER_EXIT_CODE_H

#include "base/status.h"

#define EXIT_CODE_LIST(X)                                                                          \
    X(STOPPED, 0, "stopped as asked")                                                              \
    X(FAILED, 1, "could not start or go on; a restart may help")                                   \
    X(USAGE, 2, "wrong flags, variables, files they name, or limits")                              \
    X(REMOVED, 3, "this member was removed from its cluster")                                      \
    X(DISK_FULL, 4, "the disk is full")                                                            \
    X(DISK_FAILED, 5, "the disk failed, or the data directory cannot be read or written")          \
    X(DATA_CORRUPT, 6, "the data is damaged, or of another version")                               \
    X(DATA_DIR_IN_USE, 7, "another process uses the data directory")                               \
    X(NOT_ADDED, 8, "this member was never added to the cluster that it should join")              \
    X(DATA_DIR_REPLACED, 9, "the data directory is not the one that this member had")

enum exit_code {
#define EXIT_CODE_ENUM(name, number, text) EXIT_CODE_##name = (number),
    EXIT_CODE_LIST(EXIT_CODE_ENUM)
#undef EXIT_CODE_ENUM
};

/* The code for a start, or a node, that failed with this status. Never EXIT_CODE_STOPPED. */
enum exit_code exit_code_of_status(enum status status);

#endif
