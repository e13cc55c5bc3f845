//! Slot allocation: which rank runs on which host. Hosts are filled in the order given, and exactly
//! as many ranks are placed as were asked for.

use hvd_types::{Placement, Rank};

use super::host_list::Host;
use crate::error::{Error, Result};

/// Places `ranks` ranks on `hosts`, filling each host before the next.
///
/// # Errors
/// When there are fewer slots than ranks; both numbers are named.
pub fn allocate(hosts: &[Host], ranks: u32) -> Result<Vec<Placement>> {
    let available = hosts
        .iter()
        .map(|host| host.slots)
        .fold(0, u32::saturating_add);
    if available < ranks {
        return Err(Error::TooFewSlots {
            wanted: ranks,
            available,
        });
    }
    let used = used_slots(hosts, ranks);
    let mut placements = Vec::new();
    for (position, host) in hosts.iter().enumerate() {
        for local_rank in 0..used[position] {
            let has_peer = |slots: &&u32| **slots > local_rank;
            placements.push(Placement {
                rank: Rank::from_index(placements.len()),
                size: ranks,
                local_rank,
                local_size: used[position],
                cross_rank: count(used[..position].iter().filter(has_peer)),
                cross_size: count(used.iter().filter(has_peer)),
                hostname: host.hostname().to_owned(),
            });
        }
    }
    Ok(placements)
}

/// How many slots of each host are taken by `ranks` ranks.
fn used_slots(hosts: &[Host], ranks: u32) -> Vec<u32> {
    let mut left = ranks;
    let take = |host: &Host| {
        let taken = host.slots.min(left);
        left -= taken;
        taken
    };
    hosts.iter().map(take).collect()
}

fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hosts::parse_hosts;

    fn rows(hosts: &str, ranks: u32) -> Vec<String> {
        let row = |p: &Placement| {
            format!(
                "{} {} {}/{} {}/{}",
                p.rank, p.hostname, p.local_rank, p.local_size, p.cross_rank, p.cross_size
            )
        };
        allocate(&parse_hosts(hosts).unwrap(), ranks)
            .unwrap()
            .iter()
            .map(row)
            .collect()
    }

    #[test]
    fn starts_as_many_as_asked_for_not_as_many_as_fit() {
        assert_eq!(
            rows("localhost:4", 2),
            ["0 localhost 0/2 0/1", "1 localhost 1/2 0/1"]
        );
    }

    #[test]
    fn cross_ranks_count_only_hosts_with_that_local_rank() {
        assert_eq!(
            rows("a:3,b:1,c:2", 6),
            [
                "0 a 0/3 0/3",
                "1 a 1/3 0/2",
                "2 a 2/3 0/1",
                "3 b 0/1 1/3",
                "4 c 0/2 2/3",
                "5 c 1/2 1/2"
            ]
        );
    }

    #[test]
    fn too_few_slots_names_both_numbers() {
        let error = allocate(&parse_hosts("a:1,b:2").unwrap(), 5).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("5 processes do not fit: the hosts have 3 slots")
        );
        assert_eq!(error.exit_code(), 2);
    }

    proptest! {
        #[test]
        fn every_rank_is_placed_once_and_sizes_agree(
            slots in proptest::collection::vec(0_u32..6, 1..6), part in 0.0_f64..=1.0
        ) {
            let named = |(index, slots)| Host { name: format!("h{index}"), slots };
            let hosts: Vec<Host> = slots.iter().copied().enumerate().map(named).collect();
            let total: u32 = slots.iter().sum();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            let ranks = (f64::from(total) * part) as u32;
            let placements = allocate(&hosts, ranks).unwrap();
            prop_assert_eq!(placements.len(), ranks as usize);
            for (index, placement) in placements.iter().enumerate() {
                prop_assert_eq!(placement.rank.index(), index);
                let same_host = placements.iter().filter(|p| p.hostname == placement.hostname);
                prop_assert_eq!(placement.local_size as usize, same_host.count());
                let peers: Vec<_> =
                    placements.iter().filter(|p| p.local_rank == placement.local_rank).collect();
                prop_assert_eq!(placement.cross_size as usize, peers.len());
                prop_assert_eq!(peers[placement.cross_rank as usize], placement);
            }
        }
    }
}
