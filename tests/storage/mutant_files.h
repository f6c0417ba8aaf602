/*
 * Files without one of their syncs: a mutant of the store, made from outside. Every sync that the
 * log or the votes ask for belongs to a site, a place in their code; the syncs of one site do
 * nothing. Tests show that each is needed.
 */
#ifndef LEASED_TESTS_STORAGE_MUTANT_FILES_H
#define LEASED_TESTS_STORAGE_MUTANT_FILES_H

#include "raft/raft_files.h"

#include <stdbool.h>

#define SYNC_SITES(X)                                                                              \
    X(NONE, "none left out")                                                                       \
    X(BATCH, "log: a batch that is whole")                                                         \
    X(ROLL, "log: the part of a batch before it goes on in a new segment")                         \
    X(HEADER, "log: the header of a segment, before its name")                                     \
    X(NAME, "log: the name of a segment, before it is used")                                       \
    X(RECYCLE, "log: that a file is free, before its header is written over")                      \
    X(OPEN_NAME, "log: names, when it is opened")                                                  \
    X(OPEN_BATCH, "log: the last batch, when it is opened")                                        \
    X(VOTE_FIRST, "votes: the first slot")                                                         \
    X(VOTE_SECOND, "votes: the second slot")                                                       \
    X(VOTE_NEW, "votes: a new slot, before its name")                                              \
    X(VOTE_NAME, "votes: the names of both slots")

enum sync_site {
#define SYNC_SITE_ENUM(name, text) SITE_##name,
    SYNC_SITES(SYNC_SITE_ENUM)
#undef SYNC_SITE_ENUM
        N_SYNC_SITES
};

const char *sync_site_text(enum sync_site site);

struct mutant_files {
    struct raft_files under;
    enum sync_site left_out;
    bool is_opening; /* see mutant_files_begin_opening() */
    uint64_t n_left_out;
    uint64_t n_calls[N_SYNC_SITES];
    /* What the syncs that follow are for. */
    uint64_t n_writes;
    bool is_batch_whole;
    char renamed_to[32];
    struct {
        int file;
        char name[32];
        bool was_header;
    } handles[16];
};

struct raft_files mutant_files(struct mutant_files *mutant);
/* What is done from now on, until end, is the opening of a log, or of votes. */
void mutant_files_begin_opening(struct mutant_files *mutant);
void mutant_files_end_opening(struct mutant_files *mutant);

#endif
