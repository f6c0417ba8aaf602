/*
 * The flags of the server itself, as data; option_set.h adds those of the doors. A flag of etcd's
 * that means nothing here is either accepted without effect, when ignoring it is harmless, or
 * refused with the reason.
 */
#ifndef LEASED_SERVER_OPTION_TABLE_H
#define LEASED_SERVER_OPTION_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum option_group {
    OPTION_GROUP_SERVING,
    OPTION_GROUP_DOORS,
    OPTION_GROUP_TLS,
    OPTION_GROUP_MEMBER,
    OPTION_GROUP_STORAGE,
    OPTION_GROUP_PEER_TLS,
    OPTION_GROUP_LIMITS,
    OPTION_GROUP_LOGGING,
    OPTION_GROUP_OTHER,
    OPTION_GROUP_COUNT
};

enum option_kind {
    OPTION_TEXT,     /* const char * */
    OPTION_WORD,     /* const char *, one of `choices` */
    OPTION_SWITCH,   /* bool; --flag alone means true */
    OPTION_NUMBER,   /* uint64_t between min and max */
    OPTION_DURATION, /* int64_t milliseconds; -1 when the fallback is empty */
    OPTION_URLS,     /* struct url_list */
    OPTION_ADDRESSES /* struct url_list of "host:port" */
};

enum option_effect {
    OPTION_USED,      /* stored at `offset` of struct options */
    OPTION_NO_EFFECT, /* accepted; a line in the log says that it does nothing */
    OPTION_REFUSED    /* only its fallback is accepted; `reason` says why */
};

struct option {
    const char *name; /* without dashes */
    enum option_group group;
    enum option_kind kind;
    enum option_effect effect;
    size_t offset;
    const char *fallback; /* the value when it is left out */
    const char *shown;    /* what --help shows instead of the fallback; may be NULL */
    const char *choices;  /* of OPTION_WORD: with | between them */
    uint64_t min;         /* of OPTION_NUMBER */
    uint64_t max;
    const char *help; /* of what is used; NULL otherwise */
    const char *reason;
};

extern const struct option option_table[];
extern const size_t option_table_size;

const char *option_group_title(enum option_group group);

enum { OPTION_VARIABLE_SIZE = 96 };
/* The environment variable: "LEASED_" or "ETCD_", then the name in capitals. */
void option_variable(const struct option *option, const char *prefix,
                     char out_name[OPTION_VARIABLE_SIZE]);

#endif
