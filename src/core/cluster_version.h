/*
 * The version of the cluster: a replicated number that says which commands and which format of
 * snapshots may be used. It is raised by the leader when every member has said that it knows more,
 * and never lowered, so a member of an older release can be part of the cluster, and a member can
 * go back to it, until then.
 */
#ifndef LEASED_CORE_CLUSTER_VERSION_H
#define LEASED_CORE_CLUSTER_VERSION_H

enum {
    CLUSTER_VERSION_FIRST = 2, /* releases 0.1 and 0.2: commands up to COMMAND_MEMBER */
    CLUSTER_VERSION_RULES = 3, /* rules, callers, key spaces, lease owners, counted work */
    CLUSTER_VERSION_KNOWN = CLUSTER_VERSION_RULES /* the newest that this release knows */
};

#endif
