"""Every remedy of the launcher, and the tests that type it: a table without code of its own.

The keys are those of the sources: variants of `SshFailure`, functions of `driver/findings/` (with
the variant where one has several remedies), functions of `addresses/diagnosis.rs`, variants of the
launcher's `Error`, and what other parts say. `tests/single/test_remedies_table.py` checks that none
is missing, and that the tests exist. A remedy that no test can type says why.
"""

from __future__ import annotations

from typing import NamedTuple


class Typed(NamedTuple):
    """Tests that type it, as `file::function` below `tests/`."""

    tests: tuple[str, ...]


class Untypable(NamedTuple):
    """Why no test types it."""

    why: str


def typed(*tests: str) -> Typed:
    return Typed(tests)


BY_HAND = Untypable("asks to look at a machine: whether it is on, cabled, or overloaded")
ROOM = Untypable("room on a disk is made by deleting what is in the way")
WELL_KNOWN_INDEX = Untypable("installs from an index of packages, which tests do not depend on")
ROOT = Untypable("is about rights that root, who runs these tests, does not need")
NO_REMEDY = Untypable("states what the system said; there is nothing to type")

ALLOCATION = "hpc/test_allocation.py"
ARGUMENTS = "hosts/test_remedies_arguments.py"
CONTAINERS = "containers/test_remedies.py"
HOSTS = "hosts/test_remedies.py"
JSRUN = "integration/launcher/test_jsrun.py"
MACHINE = "hosts/test_remedies_machine.py"
MPIRUN = "integration/launcher/test_mpirun.py"
SSH = "hosts/test_remedies_ssh.py"

SSH_FAILURES: dict[str, Typed | Untypable] = {
    "ClientMissing": WELL_KNOWN_INDEX,
    "NoAccountHere": typed(f"{CONTAINERS}::test_a_user_without_an_account_gets_one"),
    "Configuration": typed(
        f"{SSH}::test_a_configuration_that_others_may_write_is_closed",
        f"{SSH}::test_a_bad_line_of_the_configuration_is_removed",
    ),
    "NameUnknown": typed(
        f"{ARGUMENTS}::test_a_name_is_added_to_the_file_of_names",
        f"{ARGUMENTS}::test_an_address_does_where_a_name_is_unknown",
    ),
    "Refused": typed(
        f"{HOSTS}::test_a_server_is_started_where_none_listens",
        f"{ARGUMENTS}::test_a_forgotten_port_is_added_where_nothing_listens",
    ),
    "TimedOut": BY_HAND,
    "Silent": BY_HAND,
    "Unreachable": BY_HAND,
    "ClosedEarly": typed(f"{SSH}::test_a_server_takes_more_logins_at_once"),
    "NotSsh": typed(f"{SSH}::test_a_server_is_started_where_another_service_listens"),
    "NoCommonAlgorithm": typed(f"{SSH}::test_an_algorithm_that_the_host_offers_is_allowed"),
    "HostKeyUnknown": typed(
        f"{HOSTS}::test_an_unknown_host_key_with_a_read_only_ssh_folder",
        f"{HOSTS}::test_a_host_key_without_a_file_that_can_be_written",
        f"{CONTAINERS}::test_a_strict_master_learns_a_key",
        "hosts/test_refusals.py::test_an_unknown_host_key",
    ),
    "HostKeyChanged": typed(
        f"{HOSTS}::test_a_changed_host_key_with_a_read_only_ssh_folder",
        f"{CONTAINERS}::test_a_worker_that_was_made_anew_is_known_again",
        "hosts/test_refusals.py::test_a_changed_host_key",
    ),
    "KeyPermissions": typed(f"{HOSTS}::test_a_private_key_that_others_may_read_is_closed"),
    "IdentityMissing": typed(f"{HOSTS}::test_a_missing_private_key_is_made"),
    "TooManyKeys": typed(f"{SSH}::test_an_agent_that_offers_too_many_keys_is_emptied"),
    "KeyRefused": typed(
        f"{HOSTS}::test_a_key_is_added_where_nothing_else_opens",
        f"{HOSTS}::test_an_account_of_useradd_is_opened",
    ),
    "PasswordWanted": typed(
        f"{HOSTS}::test_a_key_is_left_where_a_password_is_wanted",
        f"{ARGUMENTS}::test_a_forgotten_port_is_added",
    ),
    "AccountClosed": typed(
        f"{SSH}::test_an_account_gets_a_login_shell",
        "containers/test_image.py::test_expired_accounts_stay_outside",
    ),
    "OtherUser": typed(f"{SSH}::test_the_user_that_an_image_names_is_taken"),
    "NoSession": typed(f"{SSH}::test_a_server_allows_a_session"),
    "Lost": BY_HAND,
    "AgentMissing": typed(f"{HOSTS}::test_a_host_without_horovod_is_sent_the_wheel"),
    "NoHorovod": typed(
        f"{HOSTS}::test_a_python_without_horovod_is_sent_the_wheel",
        f"{CONTAINERS}::test_horovod_is_sent_from_the_image",
    ),
    "CommandNotFound": Untypable("the host has no `/bin/sh`; its other line is that of NoHorovod"),
    "DiskFull": typed(f"{MACHINE}::test_the_full_disk_that_is_shown_is_freed"),
    "ForcedCommand": typed(f"{SSH}::test_a_forced_command_is_removed"),
    "Unknown": Untypable("quotes what ssh said, and asks to try by hand"),
}

FINDINGS: dict[str, Typed | Untypable] = {
    "files.directory.Missing": typed(
        f"{HOSTS}::test_a_missing_directory_is_made",
        f"{CONTAINERS}::test_a_script_is_copied_without_rsync",
    ),
    "files.directory.SomethingElse": Untypable("where to move a file is its owner's choice"),
    "files.directory.Closed": ROOT,
    "files.program.Missing": typed(
        f"{ARGUMENTS}::test_a_command_is_given_by_its_full_path",
        f"{ARGUMENTS}::test_a_command_is_given_by_the_path_it_has_there",
    ),
    "files.program.NotExecutable": typed(f"{HOSTS}::test_a_program_is_made_executable"),
    "files.script.Missing": typed(
        f"{HOSTS}::test_a_missing_script_is_copied",
        f"{HOSTS}::test_the_doctor_prints_lines_that_can_be_typed",
        f"{CONTAINERS}::test_a_script_is_copied_without_rsync",
    ),
    "files.script.Unreadable": ROOT,
    "files.script.Sha256": typed(f"{HOSTS}::test_a_script_that_differs_is_copied"),
    "files.modules": typed(
        f"{HOSTS}::test_modules_that_the_doctor_misses_are_copied",
        f"{HOSTS}::test_a_module_of_python_m_is_copied",
    ),
    "machine.twins": typed(f"{ARGUMENTS}::test_two_names_of_one_machine_become_one"),
    "machine.clock": Untypable("all hosts of the tests have one clock, the machine's"),
    "machine.temporary": typed(
        f"{MACHINE}::test_the_full_disk_that_is_shown_is_freed",
        f"{MACHINE}::test_temporary_files_of_ranks_go_elsewhere",
    ),
    "machine.read_only_temporary": typed(
        f"{CONTAINERS}::test_a_read_only_container_gets_a_place_for_temporary_files"
    ),
    "machine.disk": ROOM,
    "machine.open_files": typed(f"{CONTAINERS}::test_a_container_gets_the_limits_it_is_told"),
    "machine.shared_memory": typed(f"{CONTAINERS}::test_a_container_gets_the_limits_it_is_told"),
    "machine.processors": Untypable("a note: fewer slots may be as fast, and nothing is wrong"),
    "software.version": typed(
        f"{HOSTS}::test_another_version_is_replaced_by_the_wheel",
        f"{HOSTS}::test_another_version_on_the_path_is_told_of_and_mended",
    ),
    "software.own_horovod": Untypable("the same line as that of `software.version`"),
    "software.interpreter": Untypable("a Python of the same release is installed by hand"),
    "software.package_differs": WELL_KNOWN_INDEX,
}

DIAGNOSIS: dict[str, Typed | Untypable] = {
    "causes": typed(f"{ARGUMENTS}::test_interfaces_that_do_not_do_are_left_out"),
    "no_host_reaches_another": typed(f"{HOSTS}::test_ports_are_let_through_both_firewalls"),
    "not_reached_at_all": typed(f"{HOSTS}::test_ports_are_let_through_a_firewall"),
    "nothing_to_try": typed(f"{ARGUMENTS}::test_the_names_of_interfaces_are_corrected"),
    "publish_ports": typed(f"{CONTAINERS}::test_the_ports_of_a_container_are_published"),
    "open_firewall": typed(
        f"{HOSTS}::test_ports_are_let_through_a_firewall",
        f"{HOSTS}::test_the_ports_of_a_range_are_let_through_a_firewall",
    ),
    "reaches_no_other": Untypable("names a cause, and no command"),
    "pairs": NO_REMEDY,
    "pair": typed(f"{ARGUMENTS}::test_addresses_that_only_the_user_knows_are_advertised"),
}

LISTS = typed(f"{ARGUMENTS}::test_a_list_of_hosts_is_written_as_is_said")

ERRORS: dict[str, Typed | Untypable] = {
    "NoHosts": LISTS,
    "HostSyntax": LISTS,
    "DuplicateHost": typed(f"{ARGUMENTS}::test_a_host_that_is_listed_twice_is_listed_once"),
    "HostFileEmpty": LISTS,
    "HostFileSyntax": LISTS,
    "HostFileField": LISTS,
    "HostFileDuplicate": LISTS,
    "TooFewSlots": typed(f"{HOSTS}::test_numbers_that_fit_are_told"),
    "TooFewAllocated": typed(f"{ALLOCATION}::test_more_processes_name_the_allocation"),
    "Allocation": typed(f"{ALLOCATION}::test_hosts_are_listed_where_the_job_does_not_say"),
    "TwoAllocations": typed(f"{ALLOCATION}::test_hosts_are_listed_where_the_job_does_not_say"),
    "StartedByStep": typed(f"{ALLOCATION}::test_started_by_a_step"),
    "Hosts": Untypable("lists what `SshFailure` and the findings say"),
    "Unreachable": Untypable("shows what the diagnosis of addresses says"),
    "OnHost": Untypable("repeats what an agent says"),
    "NoDirectory": Untypable("the same directory as that of `files.directory`, gone meanwhile"),
    "NoContainerRuntime": Untypable("how a host gets such a program is its owner's choice"),
    "NoImage": Untypable("where an image is kept is its owner's choice"),
    "OpenFiles": typed(
        "integration/test_open_files.py::test_ranks_that_do_not_fit_are_refused_with_what_to_type"
    ),
    "CommandNotFound": NO_REMEDY,
    "CommandNotExecutable": NO_REMEDY,
    "Spawn": NO_REMEDY,
    "OutputFile": NO_REMEDY,
    "StartTimeout": Untypable("no phase of a test takes that long; its option is typed below"),
    "Rendezvous": NO_REMEDY,
    "FunctionInput": NO_REMEDY,
    "ResultMissing": NO_REMEDY,
    "Results": NO_REMEDY,
    "NoAnswer": NO_REMEDY,
    "NoKeyFile": typed("integration/test_limits.py::test_another_folder_or_room_is_enough"),
    "MpirunMissing": typed(f"{MPIRUN}::test_no_mpirun_at_all"),
    "MpirunUnknown": typed(f"{MPIRUN}::test_an_unknown_mpirun_is_quoted"),
    "UnequalSlots": typed(f"{MPIRUN}::test_what_mpirun_does_not_take_can_be_said_otherwise"),
    "SeveralInterfaces": typed(f"{MPIRUN}::test_what_mpirun_does_not_take_can_be_said_otherwise"),
    "MpirunHost": typed(f"{MPIRUN}::test_what_mpirun_does_not_take_can_be_said_otherwise"),
    "MpirunIdentity": Untypable("the file of ssh's configuration is edited by hand"),
    "OpenQuote": typed(f"{MPIRUN}::test_what_mpirun_does_not_take_can_be_said_otherwise"),
    "FunctionOnOtherHost": typed(
        "integration/test_run_function.py::test_mpirun_starts_functions_on_this_host_only"
    ),
    "NotInLsf": Untypable("needs an LSF, of which there is none for tests"),
    "LsfFacts": typed(f"{JSRUN}::test_a_binding_needs_nothing_of_the_allocation"),
    "MoreSlotsThanGpus": typed(f"{JSRUN}::test_more_slots_than_gpus_are_refused"),
    "Rankfile": Untypable("the folder is tried before, so the file can be written"),
    "ForeignLauncher": NO_REMEDY,
    "System": NO_REMEDY,
}

OTHERS: dict[str, Typed | Untypable] = {
    "hvd-transport: OpenFiles": typed(
        "integration/test_open_files.py::test_a_rank_whose_connections_do_not_fit_says_what_to_type"
    ),
    "hvd-transport: NoFreePort": typed(
        f"{ARGUMENTS}::test_a_range_of_too_few_ports_is_made_larger"
    ),
    "hvd-rendezvous: threads": typed(
        "integration/test_limits.py::test_a_limit_of_threads_is_raised_as_is_said"
    ),
    "hvd-launch: srun": typed(
        f"{ALLOCATION}::test_node_of_another_job", f"{ALLOCATION}::test_missing_srun"
    ),
    "hvd-launch: no answer in time": typed(f"{ARGUMENTS}::test_a_slow_start_is_given_more_time"),
    "hvd-launch: the directory of the debug socket": typed(
        "integration/test_debug_command.py::test_a_directory_of_another_users_is_named_and_not_used"
    ),
    "hvd-config: another launcher": typed(
        "integration/test_other_launchers.py::test_horovodrun_works_inside_of_another_launcher",
        "integration/test_other_launchers.py::test_one_process_of_another_launcher_is_a_job_of_one",
    ),
    "hvd-cli: tokens": typed(
        "integration/launcher/test_command_line.py::test_a_new_token_is_fresh_and_taken"
    ),
    "hvd-cli: the file of -i": typed(f"{HOSTS}::test_a_missing_private_key_is_made"),
}
