/*
 * Whoever runs the cluster: adds members, learners first or not, promotes, removes, and sees to it
 * that every member has a machine and that what was removed goes. It knows more than a person would
 * (it looks at the leader's table); what it does goes through the product's own calls.
 */
#ifndef LEASED_SIM_OPERATOR_H
#define LEASED_SIM_OPERATOR_H

#include <stdbool.h>

/* Before this nobody is added or removed. */
void operator_start(void);
/* No more changes; what was begun is brought to its end. */
void operator_stop(void);
/* Every member has a machine that is up, and nobody else is there. */
bool operator_is_done(void);

#endif
