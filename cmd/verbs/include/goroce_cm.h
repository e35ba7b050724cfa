/*
 * The contract between librdmacm.so.1 and the Go half, libgoroce.so: the communication manager, and stream
 * sockets. It adds to goroce_core.h, whose rules hold here too: functions return 0 or an errno and never set
 * errno, handles are never 0, and a handle that names nothing is answered with EINVAL.
 *
 * Queue pairs are no business of the Go half here: librdmacm moves them through their states with
 * ibv_modify_qp, as qp_attr says.
 */
#ifndef GOROCE_CM_H
#define GOROCE_CM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include "goroce_core.h"

/* Counts the changes of this file: both halves have to be of one build. */
#define GOROCE_CM_VERSION 8

/* What one side says about a connection, and where it has come to. */
struct goroce_cm_param {
	const void *private_data; /* of the caller, during the call */
	uint32_t private_data_len;
	uint32_t qp_num;
	uint32_t qkey;
	uint32_t ece_vendor, ece_options;
	uint8_t responder_resources, initiator_depth;
	uint8_t flow_control, retry_count, rnr_retry_count, srq;
};

struct goroce_cm_event {
	uint64_t cookie; /* of the ID; of the listener for RDMA_CM_EVENT_CONNECT_REQUEST */
	uint64_t group;	 /* cookie of join, for the multicast events */
	goroce_handle id; /* the new one of RDMA_CM_EVENT_CONNECT_REQUEST */
	uint32_t type;	  /* enum rdma_cm_event_type */
	int32_t status;	  /* as of the kernel: 0, a negative errno, or the reason of a refusal */
	uint64_t arg;	  /* of write_event */
	int32_t has_conn, has_ud;
	struct goroce_cm_param conn; /* private_data is not set */
	struct ibv_ah_attr ah;	     /* with has_ud */
	uint32_t private_data_len;
	uint8_t private_data[256];
};

/* Where an ID is. */
struct goroce_cm_route {
	struct sockaddr_storage src, dst; /* family 0: none yet */
	int32_t device;			  /* as numbered by add_device; -1: none yet */
	uint8_t traffic_class, mtu;	  /* mtu: enum ibv_mtu */
	uint8_t sgid[16], dgid[16];
};

/* Whether there are messages for the queue pair of an ID that the program has not polled yet. The ID exists during the call. */
typedef int goroce_cm_unpolled_fn(uint64_t cookie);

struct goroce_cm {
	uint32_t version; /* GOROCE_CM_VERSION */
	uint32_t size;	  /* of this structure */

	/*
	 * add_device makes a device, by the handle of its context, known as the next number, from 0. helper is the path of
	 * goroce_will (goroce_will.h), which the first one says.
	 */
	int (*add_device)(goroce_handle device, const char *helper);

	/* fd is an eventfd that can be read exactly while there are events that need not wait: see hold. */
	int (*create_channel)(int fd, goroce_handle *channel);
	/* destroy_channel ends the IDs of the channel, too. */
	int (*destroy_channel)(goroce_handle channel);
	/* next takes an event; EAGAIN if there is none. */
	int (*next)(goroce_handle channel, struct goroce_cm_event *e);
	/* drained says that the caller has read fd. */
	int (*drained)(goroce_handle channel);

	/* ask comes first, before any ID. */
	void (*ask)(goroce_cm_unpolled_fn *unpolled);
	int (*create_id)(goroce_handle channel, uint32_t ps, uint32_t qp_type, uint64_t cookie, goroce_handle *id);
	/* adopt gives an ID that came with an event its cookie. */
	int (*adopt)(goroce_handle id, uint64_t cookie);
	int (*destroy_id)(goroce_handle id);
	/* write_event adds an event of the program's own to the channel of an ID. */
	int (*write_event)(goroce_handle id, uint32_t type, int32_t status, uint64_t arg);
	/* hold has DISCONNECTED come again when the program has polled; EAGAIN if it has, or has had its time. */
	int (*hold)(goroce_handle id);
	int (*migrate_id)(goroce_handle id, goroce_handle channel);
	int (*query_id)(goroce_handle id, struct goroce_cm_route *r);
	int (*set_option)(goroce_handle id, int level, int name, const void *value, size_t len);
	int (*bind_addr)(goroce_handle id, const struct sockaddr *addr);
	int (*resolve_addr)(goroce_handle id, const struct sockaddr *src, const struct sockaddr *dst);
	int (*resolve_route)(goroce_handle id);
	/*
	 * listen_id: parent is -1, or a descriptor that can be read when the process has gone that may have the service. If it has, listening begins
	 * then.
	 */
	int (*listen_id)(goroce_handle id, int backlog, int parent);
	int (*connect_id)(goroce_handle id, const struct goroce_cm_param *p);
	/* accept_id of an active ID sends the confirmation (rdma_establish). */
	int (*accept_id)(goroce_handle id, const struct goroce_cm_param *p);
	int (*reject)(goroce_handle id, uint32_t reason, const void *private_data, uint32_t len);
	int (*notify)(goroce_handle id, uint32_t event);
	int (*disconnect)(goroce_handle id);
	/* qp_attr takes qp_state from attr, and sets the rest and the mask. */
	int (*qp_attr)(goroce_handle id, struct ibv_qp_attr *attr, int *mask);
	int (*join)(goroce_handle id, const struct sockaddr *group, uint32_t flags, uint64_t cookie);
	int (*leave)(goroce_handle id, const struct sockaddr *group);
	/*
	 * finish ends all IDs and rsockets, when the process does, so that their peers know. It waits for what was posted and for
	 * what was written to rsockets, as long as the end of each would.
	 */
	void (*finish)(uint32_t *beat);
};

/* The symbols that librdmacm looks up in libgoroce.so. */
typedef const struct goroce_cm *goroce_cm_table_fn(void);
const struct goroce_cm *goroce_cm_table(void);

#endif
