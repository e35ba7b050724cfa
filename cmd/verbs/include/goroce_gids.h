/* For all that shows the table of GIDs: libibverbs.so.1, libgoroce.so and libgoroce_hook.so. */
#ifndef GOROCE_GIDS_H
#define GOROCE_GIDS_H

/*
 * The one GID of a device has every place of the table, since programs have the index written down that is right for the device of their
 * authors: rdma_rxe has its IPv4 address at 1, ConnectX has RoCE v2 over IPv4 at 3.
 */
#define GOROCE_GIDS 4

#endif
