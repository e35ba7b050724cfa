// Small requests that follow each other wait in the ring of their send queue, so that the Go half is entered once for many, and
// they share datagrams. They leave when a poll finds nothing, which is the pause here, when there are enough of them, and in any case
// after 0.1 ms or so, when the Go half looks.
#include "shim.h"

// So many requests without a pause have to be posted before a ring is used: one that is followed by none is not to wait.
#define RUN_BEGINS 8
// So many requests leave without a pause, a datagram full: with fewer the kernel is called more often, and with all that a queue of 128 has
// room for the peer has nothing to do meanwhile.
#define ENOUGH 64
// So much of their messages does: some datagrams full.
#define ENOUGH_BYTES (256 << 10)
// A longer message fills a datagram by itself, or half of one.
#define MAX_LENGTH (32 << 10)

void shim_stage_init(struct shim_qp *q)
{
	if (q->qp.qp_type != IBV_QPT_RC && q->qp.qp_type != IBV_QPT_UC)
		return; // an address handle may end before the request is taken
	void *ring;
	if (posix_memalign(&ring, 64, sizeof *q->ring))
		return;
	q->ring = ring;
	memset(q->ring, 0, offsetof(struct goroce_send_ring, slots));
}

// fits reports whether a request can be put into a ring: the Go half would not refuse it.
static bool fits(const struct shim_qp *q, const struct ibv_send_wr *wr, uint64_t *bytes)
{
	bool payload = true;
	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		break;
	case IBV_WR_RDMA_READ:
		payload = false;
		if (q->qp.qp_type == IBV_QPT_RC)
			break;
		return false;
	default:
		return false;
	}
	const int most = sizeof ((struct goroce_send_slot *)0)->list / sizeof(struct ibv_sge);
	if (wr->num_sge < 0 || wr->num_sge > most || (uint32_t)wr->num_sge > q->init.cap.max_send_sge || (wr->num_sge && !wr->sg_list))
		return false;
	uint64_t n = 0;
	for (int i = 0; i < wr->num_sge; i++)
		n += wr->sg_list[i].length;
	*bytes += n;
	if (wr->send_flags & IBV_SEND_INLINE)
		return payload && n <= GOROCE_SEND_DATA && n <= q->init.cap.max_inline_data;
	return n <= MAX_LENGTH;
}

static void put(struct goroce_send_slot *s, const struct ibv_send_wr *wr)
{
	s->wr_id = wr->wr_id;
	s->remote_addr = wr->wr.rdma.remote_addr;
	s->rkey = wr->wr.rdma.rkey;
	s->imm_data = wr->imm_data;
	s->opcode = (uint8_t)wr->opcode;
	s->flags = (uint8_t)wr->send_flags;
	s->num_sge = s->data_length = 0;
	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		for (int i = 0; i < wr->num_sge; i++)
			s->list[i] = wr->sg_list[i];
		s->num_sge = (uint8_t)wr->num_sge;
		return;
	}
	for (int i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length)
			memcpy(s->data + s->data_length, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		s->data_length = (uint8_t)(s->data_length + wr->sg_list[i].length);
	}
}

// take has the Go half post what is in the ring. The lock is held.
static void take(struct shim_qp *q)
{
	struct ibv_send_wr *bad;
	shim_meet();
	CORE(post_send, q->handle, NULL, &bad);
}

static bool has_room(const struct goroce_send_ring *r, uint64_t n)
{
	return r->tail + n <= __atomic_load_n(&r->limit, __ATOMIC_RELAXED) &&
	       r->tail + n - __atomic_load_n(&r->head, __ATOMIC_ACQUIRE) <= GOROCE_SEND_SLOTS;
}

bool shim_stage(struct shim_qp *q, const struct ibv_send_wr *wr)
{
	struct goroce_send_ring *r = q->ring;
	if (!r || !__atomic_load_n(&r->open, __ATOMIC_RELAXED) || !wr)
		return false;
	// All that is read below is read here first: who posts what is nowhere has its SIGSEGV without the lock.
	uint64_t n = 0, bytes = 0;
	for (const struct ibv_send_wr *w = wr; w; w = w->next) {
		if (!fits(q, w, &bytes) || ++n > ENOUGH)
			return false;
		if (w->send_flags & IBV_SEND_INLINE)
			for (int i = 0; i < w->num_sge; i++)
				if (w->sg_list[i].length) {
					const volatile char *c = (const volatile char *)(uintptr_t)w->sg_list[i].addr;
					(void)c[0];
					(void)c[w->sg_list[i].length - 1];
				}
	}
	shim_send_lock(q);
	if (!has_room(r, n)) {
		// What has ended since the limit was set is free. Only if that is not enough does the ring leave: the first part of a burst
		// would be a datagram and a call to the kernel more.
		shim_meet();
		CORE_DO(send_room, q->handle);
		if (!has_room(r, n))
			take(q);
		if (!has_room(r, n)) {
			shim_send_unlock(q);
			return false;
		}
	}
	uint64_t tail = r->tail, head = __atomic_load_n(&r->head, __ATOMIC_ACQUIRE);
	if (tail == head)
		r->bytes = 0;
	r->bytes += bytes;
	for (; wr; wr = wr->next)
		put(&r->slots[tail++ % GOROCE_SEND_SLOTS], wr);
	__atomic_store_n(&r->tail, tail, __ATOMIC_RELEASE);
	// Who closes the ring looks at it afterwards, and who finds nothing in a poll looks at the rings after it has cleared full.
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	struct shim_stage *s = &to_context(q->qp.context)->stage;
	if (tail - head >= ENOUGH || r->bytes >= ENOUGH_BYTES || !__atomic_load_n(&r->open, __ATOMIC_RELAXED))
		take(q);
	else if (!__atomic_load_n(&s->full, __ATOMIC_RELAXED))
		__atomic_store_n(&s->full, true, __ATOMIC_RELAXED);
	if (!__atomic_load_n(&s->busy, __ATOMIC_RELAXED))
		__atomic_store_n(&s->busy, true, __ATOMIC_RELEASE);
	shim_send_unlock(q);
	return true;
}

void shim_stage_direct(struct shim_qp *q, const struct ibv_send_wr *wr)
{
	uint64_t bytes = 0;
	if (!q->ring)
		return;
	if (!wr || !fits(q, wr, &bytes)) { // an open ring is looked after, also if nothing is ever put in
		q->run = 0;
		q->ring->wanted = false;
		return;
	}
	struct shim_stage *s = &to_context(q->qp.context)->stage;
	unsigned int pause = __atomic_load_n(&s->pauses, __ATOMIC_RELAXED);
	if (q->pause != pause) {
		q->pause = pause;
		q->run = 0;
	}
	for (; wr && q->run <= RUN_BEGINS; wr = wr->next)
		q->run++;
	q->ring->wanted = q->run > RUN_BEGINS;
	if (!__atomic_load_n(&s->busy, __ATOMIC_RELAXED))
		__atomic_store_n(&s->busy, true, __ATOMIC_RELAXED);
}

void shim_stage_pause(struct shim_context *c)
{
	struct shim_stage *s = &c->stage;
	__atomic_store_n(&s->busy, false, __ATOMIC_RELAXED);
	__atomic_add_fetch(&s->pauses, 1, __ATOMIC_RELAXED);
	if (__atomic_exchange_n(&s->full, false, __ATOMIC_SEQ_CST)) {
		shim_meet();
		CORE_DO(flush, c->handle);
	}
}
