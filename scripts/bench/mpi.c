/* One rank of an MPI peer: the C sister of worker.py, which says what it does.

   mpi WORKLOADS SECONDS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_TENSORS = 1024, MOST_STEPS = 5000 };

typedef struct {
    int count;
    int elements[MOST_TENSORS];
    float *memory[MOST_TENSORS];
} Work;

static int rank, size;

static void give_up(const char *why) {
    fprintf(stderr, "rank %d: %s\n", rank, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* One line of the file; 0 at its end. */
static int read_work(FILE *file, Work *work) {
    int character;
    work->count = 0;
    for (;;) {
        long bytes;
        while ((character = getc(file)) == ' ')
            ;
        if (character == '\n' || character == EOF) return work->count > 0;
        ungetc(character, file);
        if (work->count == MOST_TENSORS || fscanf(file, "%ld", &bytes) != 1) give_up("bad workload");
        work->elements[work->count++] = (int)(bytes / (long)sizeof(float));
    }
}

static void fill(Work *work, float value) {
    for (int i = 0; i < work->count; i++)
        for (int j = 0; j < work->elements[i]; j++) work->memory[i][j] = value;
}

static void check(const Work *work, float expected) {
    for (int i = 0; i < work->count; i++)
        for (int j = 0; j < work->elements[i]; j++)
            if (work->memory[i][j] != expected) give_up("wrong sum");
}

static void step(Work *work) {
    static MPI_Request under_way[MOST_TENSORS];
    if (work->count == 1) {
        MPI_Allreduce(MPI_IN_PLACE, work->memory[0], work->elements[0], MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        return;
    }
    for (int i = 0; i < work->count; i++)
        MPI_Iallreduce(MPI_IN_PLACE, work->memory[i], work->elements[i], MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                       &under_way[i]);
    MPI_Waitall(work->count, under_way, MPI_STATUSES_IGNORE);
}

/* Warms up, and finds with the other ranks how many steps take about `seconds`. */
static int agree_on_count(Work *work, double seconds) {
    double start = MPI_Wtime(), elapsed = 0;
    int warm = 0;
    while (elapsed < seconds / 4) {
        step(work);
        warm++;
        elapsed = MPI_Wtime() - start;
        MPI_Bcast(&elapsed, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    }
    double count = warm * seconds / elapsed;
    return count < 3 ? 3 : count > MOST_STEPS ? MOST_STEPS : (int)count;
}

static int ascending(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

static double median_microseconds(Work *work, double seconds) {
    static double times[MOST_STEPS];
    int count = agree_on_count(work, seconds);
    for (int i = 0; i < count; i++) {
        double start = MPI_Wtime();
        step(work);
        times[i] = MPI_Wtime() - start;
    }
    qsort(times, (size_t)count, sizeof *times, ascending);
    return 1e6 * times[count / 2];
}

int main(int argc, char **argv) {
    static Work work;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    FILE *file = argc == 3 ? fopen(argv[1], "r") : NULL;
    if (!file) give_up("usage: mpi WORKLOADS SECONDS");
    for (int index = 0; read_work(file, &work); index++) {
        for (int i = 0; i < work.count; i++)
            if (posix_memalign((void **)&work.memory[i], 64, (size_t)work.elements[i] * sizeof(float)))
                give_up("out of memory");
        fill(&work, (float)(rank + 1));
        step(&work);
        check(&work, (float)(size * (size + 1) / 2));
        fill(&work, 0);
        double median = median_microseconds(&work, atof(argv[2]));
        if (rank == 0) printf("RESULT %d %.3f\n", index, median), fflush(stdout);
        for (int i = 0; i < work.count; i++) free(work.memory[i]);
    }
    fclose(file);
    MPI_Finalize();
    return 0;
}
