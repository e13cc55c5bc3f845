//! The handshake against an acceptor that follows the Noise specification (revision 34) step by
//! step, for `NNpsk0` with X25519, AES-256-GCM and SHA-256: only if the job key is its pre-shared
//! key, and all primitives are those, do both accept each other's messages.

use curve25519_dalek::montgomery::MontgomeryPoint;
use ring::{aead, digest, hmac};

use super::*;

type Block = [u8; 32];

/// The specification's symmetric state.
struct SymmetricState {
    chaining_key: Block,
    hash: Block,
    key: Block,
}

impl SymmetricState {
    /// The name of the protocol is as long as a hash, so it is taken as it is.
    fn initialize(protocol: &[u8; 32]) -> Self {
        Self {
            chaining_key: *protocol,
            hash: *protocol,
            key: [0; 32],
        }
    }

    fn mix_hash(&mut self, data: &[u8]) {
        let both = [&self.hash[..], data].concat();
        self.hash = block(digest::digest(&digest::SHA256, &both).as_ref());
    }

    /// The outputs of HKDF for the next key; the first becomes the chaining key.
    fn derive(&mut self, input: &[u8]) -> [Block; 2] {
        let temporary = hmac_sha256(&self.chaining_key, input);
        let first = hmac_sha256(&temporary, &[1]);
        let second = hmac_sha256(&temporary, &[&first[..], &[2]].concat());
        let third = hmac_sha256(&temporary, &[&second[..], &[3]].concat());
        self.chaining_key = first;
        [second, third]
    }

    fn mix_key(&mut self, input: &[u8]) {
        [self.key, _] = self.derive(input);
    }

    fn mix_key_and_hash(&mut self, input: &[u8]) {
        let [hash, key] = self.derive(input);
        self.mix_hash(&hash);
        self.key = key;
    }

    /// The tag of an empty payload, which is all that our messages encrypt.
    fn encrypt_nothing(&mut self) -> [u8; 16] {
        let key = aead::UnboundKey::new(&aead::AES_256_GCM, &self.key).unwrap();
        let nonce = aead::Nonce::assume_unique_for_key([0; 12]);
        let tag = aead::LessSafeKey::new(key).seal_in_place_separate_tag(
            nonce,
            aead::Aad::from(self.hash),
            &mut [],
        );
        let tag: [u8; 16] = tag.unwrap().as_ref().try_into().unwrap();
        self.mix_hash(&tag);
        tag
    }

    /// The token `e`, in a handshake with a pre-shared key.
    fn mix_ephemeral(&mut self, public: &[u8]) {
        self.mix_hash(public);
        self.mix_key(public);
    }
}

fn block(bytes: &[u8]) -> Block {
    bytes.try_into().unwrap()
}

fn hmac_sha256(key: &Block, data: &[u8]) -> Block {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    block(hmac::sign(&key, data).as_ref())
}

#[test]
fn the_handshake_is_the_noise_protocol_that_is_promised() {
    let key = key();
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    let connector = {
        let key = key.clone();
        thread::Builder::new()
            .name("hvd-test-connector".into())
            .spawn(move || connect(&mut ours, &key, Purpose::Store).map(drop))
            .unwrap()
    };
    let hello = receive::<HELLO>(&mut theirs).unwrap();
    let (head, proof) = hello.split_at(6);
    let (ephemeral, tag) = proof.split_at(32);

    let mut state = SymmetricState::initialize(b"Noise_NNpsk0_25519_AESGCM_SHA256");
    state.mix_hash(head);
    state.mix_key_and_hash(key.bytes());
    state.mix_ephemeral(ephemeral);
    assert_eq!(state.encrypt_nothing(), tag, "the connector's proof");

    let secret = [7; 32];
    let public = MontgomeryPoint::mul_base_clamped(secret).to_bytes();
    let shared = MontgomeryPoint(block(ephemeral)).mul_clamped(secret);
    state.mix_ephemeral(&public);
    state.mix_key(shared.as_bytes());
    let answer = [&answer_head(VERSION)[..], &public, &state.encrypt_nothing()].concat();
    theirs.write_all(&answer).unwrap();
    let accepted = connector.join().unwrap();
    assert!(accepted.is_ok(), "the acceptor's proof: {accepted:?}");
}
