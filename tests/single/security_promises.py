"""The sentences of SECURITY.md: the tests of each, or why it has none.

`test_security_page.py` checks that no sentence of the page is missing here and that the tests
exist. A changed sentence is changed here too, together with a look at its tests.
"""

from __future__ import annotations

HOSTS = "tests/hosts"
SECURITY = f"{HOSTS}/test_security.py"
GARBAGE = f"{HOSTS}/test_garbage.py"
LAUNCHER = "tests/integration/launcher"
OPEN_FILES = "tests/integration/test_open_files.py"
MEMORY_SOCKET = "tests/integration/test_memory_socket.py"
DEBUG = "tests/integration/test_debug_command.py"
OBJECTS = "tests/parallel/test_objects.py"
REGISTRY = "tests/single/test_tensorflow_data_registry.py"
PAGE = "tests/single/test_security_page.py"
RENDEZVOUS = "hvd-rendezvous/src"
HANDSHAKE = f"{RENDEZVOUS}/handshake/tests.rs"
SESSION = f"{RENDEZVOUS}/session/tests.rs"
STORE = "hvd-rendezvous/tests/store.rs"
BOOTSTRAP = "hvd-bootstrap/src"

PROMISED: dict[str, tuple[str, ...]] = {
    "A job is closed to anyone without its key: other hosts on the network, other users of its"
    " hosts, other jobs, and attackers on the network between its hosts.": (
        f"{GARBAGE}::test_strangers_at_every_port_of_a_job",
        f"{GARBAGE}::test_strangers_at_every_port_of_a_start",
        f"{DEBUG}::test_other_users_get_no_answer",
        f"{HANDSHAKE}::another_jobs_key_is_refused_on_both_sides",
    ),
    "Each row of its tables names the tests that verify it, and `tests/single/security_promises.py`"
    " does so for each sentence.": (
        f"{PAGE}::test_every_row_names_tests_that_exist",
        f"{PAGE}::test_every_sentence_names_tests_that_exist_or_promises_nothing",
    ),
    # The key.
    "Each job has a key of 32 random bytes.": (
        f"{RENDEZVOUS}/key.rs::survives_the_environment",
        f"{SECURITY}::test_the_key_is_in_no_output",
    ),
    "It never appears on a command line, in the environment of a process or in a log.": (
        f"{HOSTS}/test_launch.py::test_secrets_are_on_no_command_line_and_in_no_environment",
        f"{SECURITY}::test_the_key_is_in_no_output",
        f"{RENDEZVOUS}/key.rs::debug_keeps_the_secret",
    ),
    "Ranks read it from a file with mode 0600 (`HOROVOD_SECRET_KEY_FILE`), which is removed when"
    " the job ends.": (
        f"{LAUNCHER}/test_worker_environment.py::test_the_key_is_in_a_file_that_only_its_owner_reads",
        f"{HOSTS}/test_launch.py::test_secrets_are_on_no_command_line_and_in_no_environment",
        "hvd-launch/src/process/key_file.rs::only_the_owner_may_read_it_and_it_goes_with_the_job",
    ),
    "Agents read it from the standard input of their ssh connection, or derive it from a"
    " [token](#tokens).": (
        f"{HOSTS}/test_launch.py::test_secrets_are_on_no_command_line_and_in_no_environment",
        f"{SECURITY}::test_jobs_with_one_token_have_keys_of_their_own",
    ),
    "In a job that another launcher started (`mpirun`, `srun`, `torchrun`), rank 0 generates the"
    " key.": (
        f"{BOOTSTRAP}/job/tests.rs::ranks_find_each_other_by_a_file_and_leave_no_key_behind",
    ),
    "It reaches the other ranks through the launcher's PMIx or PMI, or through a file with mode"
    " 0600, which rank 0 removes when all ranks have met.": (
        "tests/hpc/test_ranks.py::test_mpirun_on_two_hosts",
        "tests/hpc/test_ranks.py::test_srun_on_two_nodes",
        f"{BOOTSTRAP}/job/tests.rs::ranks_find_each_other_by_a_file_and_leave_no_key_behind",
        "tests/integration/test_other_launchers.py::test_torchrun_starts_a_job",
    ),
    "A rank refuses a file that other users could have read or written.": (
        f"{BOOTSTRAP}/facility/directory.rs::file_1_what_others_could_have_written_is_refused",
    ),
    # Links.
    "Every connection starts with the Noise handshake `NNpsk0` (X25519, AES-256-GCM, SHA-256) with"
    " the job key as pre-shared key.": (
        f"{RENDEZVOUS}/handshake/tests/specification.rs"
        "::the_handshake_is_the_noise_protocol_that_is_promised",
        f"{HANDSHAKE}::friends_recognise_each_other_and_agree_on_the_purpose",
    ),
    "Both ends prove that they know the key, and derive keys for this connection only.": (
        f"{HANDSHAKE}::another_jobs_key_is_refused_on_both_sides",
        f"{HANDSHAKE}::hand_2_a_recorded_hello_opens_nothing",
        f"{HANDSHAKE}::hand_3_the_acceptors_own_proof_does_not_open_it",
        f"{SESSION}::seal_1_records_of_another_session_or_direction_do_not_open",
    ),
    "Then bytes travel in numbered AES-256-GCM records: if records are changed, dropped, repeated,"
    " reordered, replayed or taken from another connection, in either direction, the connection"
    " ends with an error that names it, and no value is changed.": (
        f"{SESSION}::seal_1_records_of_another_session_or_direction_do_not_open",
        f"{SESSION}::seal_2_what_is_changed_left_out_repeated_or_moved_does_not_open",
        "hvd-rendezvous/tests/tampering.rs"
        "::every_attack_on_the_store_is_noticed_and_changes_nothing",
        # The other links: in the table below it.
    ),
    "Learning the job key later does not decrypt recorded traffic.": (
        f"{HANDSHAKE}::the_key_does_not_open_what_was_recorded_before",
    ),
    "Each object carries a proof of which rank of this job sent it for which call.": (
        f"{RENDEZVOUS}/objects.rs::an_object_counts_for_its_purpose_and_its_moment_only",
        f"{OBJECTS}::test_an_object_of_an_earlier_call_is_not_taken_for_that_of_a_later_one",
    ),
    "Horovod verifies the proof before unpickling, whatever `HOROVOD_ENCRYPT` is.": (
        f"{OBJECTS}::test_an_object_that_was_changed_on_its_way_is_not_unpickled",
        f"{OBJECTS}::test_gathered_objects_that_were_changed_on_their_way_are_not_unpickled",
    ),
    "The function of `horovod.run()` and its results travel through the key-value store.": (
        f"{HOSTS}/test_run.py::test_results_by_rank",
        f"{LAUNCHER}/test_function_mode.py::test_workers_do_not_inherit_the_results_pipe",
    ),
    "Horovod does not unpickle or execute anything else that it receives.": (
        "tests/single/test_unpickling.py::test_only_known_places_unpickle",
    ),
    # Ports.
    "These are all ports of a job, and they listen on no other addresses.": (
        f"{SECURITY}::test_ports_of_a_job_on_two_hosts",
        f"{SECURITY}::test_ports_of_a_job_on_one_host_are_those_of_the_loopback",
        f"{SECURITY}::test_ports_of_a_start",
        f"{HOSTS}/test_reach.py::test_a_port_range_is_kept_to",
        f"{REGISTRY}::test_it_listens_where_it_was_told_to_only",
    ),
    "Each port but the last allows at most 256 connections that have not proved the key yet, for at"
    " most five seconds each; one more closes the oldest (at the debug socket: that has not asked"
    " yet).": (
        f"{GARBAGE}::test_a_flood_at_every_port_of_a_job",
        f"{GARBAGE}::test_a_flood_at_every_port_of_a_start",
        f"{GARBAGE}::test_a_flood_at_the_port_for_agents_with_tokens",
        f"{STORE}::door_2_silent_strangers_do_not_keep_a_client_out",
        f"{MEMORY_SOCKET}::test_silent_connections_do_not_keep_a_rank_from_its_memory",
        f"{DEBUG}::test_silent_connections_do_not_keep_others_from_asking",
        f"{REGISTRY}::test_the_limits_are_those_that_are_promised",
        f"{REGISTRY}::test_the_oldest_stranger_makes_room",
    ),
    "Before the proof, Horovod reads only messages of fixed length, and answers only with its"
    " version, or that the key is wrong.": (
        f"{HANDSHAKE}::a_hello_without_the_key_is_told_so_and_nothing_else",
        f"{HANDSHAKE}::another_version_is_named_on_both_sides",
        f"{HANDSHAKE}::other_programs_and_half_messages_are_refused",
        f"{STORE}::door_3_nonsense_ends_its_own_connection_only",
    ),
    "A process that runs out of file descriptors drops such connections and keeps listening.": (
        f"{RENDEZVOUS}/accept/tests.rs"
        "::accept_5_a_shortage_pauses_the_acceptor_and_does_not_stop_it",
        f"{OPEN_FILES}::test_a_flood_that_uses_up_all_files_does_not_close_the_port",
        f"{OPEN_FILES}::test_a_flood_at_the_debug_socket_does_not_close_it",
        f"{REGISTRY}::test_running_out_of_files_closes_no_door",
    ),
    "Failed attempts are counted and logged with their address (at the debug socket: their user),"
    " the first at once, then once a minute.": (
        f"{DEBUG}::test_other_users_get_no_answer",
        f"{OPEN_FILES}::test_strangers_are_reported_with_their_address",
        f"{RENDEZVOUS}/accept/refusals.rs::a_flood_is_one_line_a_minute_with_its_number",
        f"{MEMORY_SOCKET}::test_another_key_gets_no_file_and_is_reported",
        f"{REGISTRY}::test_refused_connections_are_counted_with_their_address",
        f"{REGISTRY}::test_a_flood_is_one_line_a_minute_with_its_number",
    ),
    "Received lengths are checked before memory is allocated.": (
        "hvd-wire/src/frame.rs::a_claimed_length_beyond_the_limit_is_refused_at_once",
        f"{SESSION}::seal_3_an_impossible_length_is_refused_before_memory_is_taken",
        "hvd-launch/src/link/frame.rs::frame_2_a_claimed_length_allocates_nothing",
        "hvd-launch/src/link/packet.rs::a_length_that_cannot_be_true_is_not_believed",
    ),
    # Tokens.
    "`horovodrun agent --new-token` prints a token of 32 random bytes for the driver and for every"
    " agent that is started in advance.": (
        f"{RENDEZVOUS}/token.rs::a_token_is_long_random_and_readable",
        f"{LAUNCHER}/test_command_line.py::test_a_new_token_is_fresh_and_taken",
    ),
    "The key of each job is derived from the token and a fresh random number.": (
        f"{RENDEZVOUS}/key.rs::a_token_and_a_number_make_one_key_and_no_other",
        f"{SECURITY}::test_jobs_with_one_token_have_keys_of_their_own",
    ),
    "Other tokens are refused, because anyone who can connect to the port could guess them"
    " offline.": (
        f"{RENDEZVOUS}/token.rs::secrets_of_another_making_are_refused",
        f"{LAUNCHER}/test_command_line.py::test_only_generated_tokens_are_taken",
    ),
    # ssh.
    "`horovodrun` uses the system's ssh with the user's configuration and `BatchMode`.": (
        f"{HOSTS}/test_launch.py::test_the_users_ssh_configuration_holds",
        f"{HOSTS}/test_refusals.py::test_a_password_would_be_needed",
    ),
    "New host keys are remembered, changed ones refused.": (
        f"{SECURITY}::test_a_new_host_key_is_remembered",
        f"{HOSTS}/test_refusals.py::test_a_changed_host_key",
    ),
    "`--ssh-strict` refuses new ones; `--no-host-key-check` turns the check off.": (
        f"{HOSTS}/test_refusals.py::test_an_unknown_host_key",
        f"{HOSTS}/test_refusals.py::test_a_changed_host_key",
    ),
    # What is not protected.
    "`HOROVOD_SECRET_KEY_FILE` with `HOROVOD_RENDEZVOUS_ADDR` and `HOROVOD_RENDEZVOUS_PORT` does"
    " without them.": (
        "tests/integration/test_other_launchers.py::test_ranks_can_be_started_by_hand",
        f"{BOOTSTRAP}/job/tests.rs::ranks_find_each_other_where_they_were_told_to",
    ),
    "Its registry, through which processes find each other, requires the key in the configuration"
    " file (mode 0600) from every connection, with HMAC; at most 256 connections are open, for at"
    " most five seconds each.": (
        "tests/integration/test_tensorflow_data_service.py::test_data_service",
        f"{REGISTRY}::test_a_wrong_key_is_refused",
        f"{REGISTRY}::test_the_limits_are_those_that_are_promised",
        f"{REGISTRY}::test_the_handshake_has_a_deadline",
    ),
    "It listens on the host's own address and on loopback only.": (
        "tests/integration/test_tensorflow_data_service.py::test_data_service",
        f"{REGISTRY}::test_it_listens_where_it_was_told_to_only",
    ),
}

CONTENTS = "what the page contains"
REASON = "the reason for the next sentence"
NO_PROTECTION = "what is not protected"
ADVICE = "advice"

EXPLAINED = {
    "This page states what is protected, link by link and port by port, and what is not.": CONTENTS,
    "**Objects** (`broadcast_object`, `allgather_object`, and functions built on them) are pickled,"
    " and unpickling executes code.": REASON,
    "(SIGKILL of both processes of `horovodrun` leaves the file behind, with the key of a finished"
    " job.)": NO_PROTECTION,
    "Anyone who has the token can run commands as the user of the agents: treat it like an ssh"
    " key.": ADVICE,
    "With `HOROVOD_ENCRYPT=control`, the default, the contents of tensors between hosts are neither"
    " encrypted nor authenticated, as with MPI, NCCL and gloo: an attacker who can modify packets"
    " can modify gradients and end a job.": NO_PROTECTION,
    "PMIx and PMI carry the key as they carry everything else: anyone who can read the traffic"
    " between the launcher's daemons has it.": NO_PROTECTION,
    "With `HOROVOD_CPU_OPERATIONS=mpi`, tensors between hosts travel as the MPI library sends"
    " them.": NO_PROTECTION,
    "**Sizes and times** of messages are visible on the network.": NO_PROTECTION,
    "The traffic after that is not encrypted.": NO_PROTECTION,
    "The dispatchers and workers are TensorFlow's gRPC servers: **they require no authentication,"
    " encrypt nothing, and listen on all addresses of their hosts**, because TensorFlow offers no"
    " other protocol and no choice of address.": NO_PROTECTION,
    "Anyone who can connect to their ports can read the data, and execute graphs as the user who"
    " runs them.": NO_PROTECTION,
    "Use them in trusted networks only, behind a firewall.": ADVICE,
    "**Processes of the same user** on the same host can read the key file and each other's"
    " memory.": NO_PROTECTION,
    "An unauthenticated connection occupies a thread for up to five seconds; an attacker who can"
    " interrupt or saturate the network can end a job.": NO_PROTECTION,
    "Report vulnerabilities privately to the maintainers (see the repository's security page), and"
    " allow some days before publishing.": ADVICE,
}
