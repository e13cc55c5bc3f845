//! The ranks that share a rank's host, and those in the same place on the other hosts. Worked out
//! once, from the names of the hosts.

use hvd_types::{Rank, Topology};

/// One rank's neighbours, itself included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbours {
    /// The ranks on the same host, ascending: a position in this list is a local rank.
    pub local: Vec<Rank>,
    /// The ranks with the same local rank, one of each host that has so many, in the order of the
    /// hosts: a position in this list is a cross rank.
    pub cross: Vec<Rank>,
}

impl Neighbours {
    /// The neighbours of a rank; `hosts` names the host of every rank of the job.
    pub(crate) fn of(rank: Rank, hosts: &[String]) -> Self {
        let topology = Topology::new(hosts.iter().map(String::as_str));
        Self {
            local: topology.local_group(rank).to_vec(),
            cross: topology.cross_group(rank).to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbours(rank: u32, hosts: &[&str]) -> (Vec<u32>, Vec<u32>) {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let Neighbours { local, cross } = Neighbours::of(Rank::new(rank), &hosts);
        let numbers = |ranks: Vec<Rank>| ranks.into_iter().map(Rank::number).collect();
        (numbers(local), numbers(cross))
    }

    #[test]
    fn a_job_on_one_host() {
        assert_eq!(neighbours(1, &["a", "a", "a"]), (vec![0, 1, 2], vec![1]));
        assert_eq!(neighbours(0, &["a"]), (vec![0], vec![0]));
    }

    #[test]
    fn hosts_with_different_numbers_of_ranks() {
        let hosts = ["a", "a", "a", "b", "c", "c"];
        assert_eq!(neighbours(0, &hosts), (vec![0, 1, 2], vec![0, 3, 4]));
        assert_eq!(neighbours(1, &hosts), (vec![0, 1, 2], vec![1, 5]));
        assert_eq!(neighbours(2, &hosts), (vec![0, 1, 2], vec![2]));
        assert_eq!(neighbours(3, &hosts), (vec![3], vec![0, 3, 4]));
        assert_eq!(neighbours(5, &hosts), (vec![4, 5], vec![1, 5]));
    }

    #[test]
    fn ranks_dealt_out_to_hosts_in_turn() {
        assert_eq!(
            neighbours(2, &["a", "b", "a", "b"]),
            (vec![0, 2], vec![2, 3])
        );
    }
}
