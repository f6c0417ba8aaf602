/* Bounds of the product that a minute of simulated life would never reach, chosen by the seed. */
#ifndef LEASED_SIM_BOUNDS_SIM_H
#define LEASED_SIM_BOUNDS_SIM_H

/* Before any node starts. */
void bounds_sim_init(void);

#endif
