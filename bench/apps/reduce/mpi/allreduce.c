// MPI_Allreduce beside the all-reduce of this folder: what a call takes, with the checks of apps reduce.
//
//	mpicc -O2 -o allreduce allreduce.c
//	mpirun -n 2 --mca pml ucx -x UCX_TLS=rc,self roce run --addr 127.0.0.1 -- ./allreduce 1048576 1000
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int by(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	int rank, n, count = atoi(argv[1]) / 4, calls = atoi(argv[2]);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	float *v = malloc(4 * (size_t)count);
	double *took = malloc(sizeof *took * calls);
	for (int call = -5; call < calls; call++) {
		for (int i = 0; i < count; i++)
			v[i] = (rank + 1) * (float)(i % 128 + (call + 5) % 128);
		double begin = MPI_Wtime();
		MPI_Allreduce(MPI_IN_PLACE, v, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		if (call >= 0)
			took[call] = MPI_Wtime() - begin;
		for (int i = 0; i < count; i++)
			if (v[i] != n * (n + 1) / 2 * (float)(i % 128 + (call + 5) % 128)) {
				fprintf(stderr, "call %d: element %d is %f\n", call, i, v[i]);
				MPI_Abort(MPI_COMM_WORLD, 1);
			}
	}
	qsort(took, calls, sizeof *took, by);
	if (rank == 0)
		printf("%d bytes, %d processes: p50 %.0f us, p99 %.0f us\n", 4 * count, n, 1e6 * took[calls / 2], 1e6 * took[calls * 99 / 100]);
	MPI_Finalize();
	return 0;
}
